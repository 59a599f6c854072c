"""The arguments of Lightning's Trainer in its releases, read from their wheels and sources by their syntax trees.

    python -m tests.lab.lightning_trainers fetch     # once, into the lab's cache: 60 MB
    python -m tests.lab.lightning_trainers           # the table for gpudoctor/knowledge/trainer_arguments.py

Nothing of them is imported. Releases before 0.7.3 are source distributions, whose metadata pip has to build.
"""

import ast
import re
import subprocess
import sys
import tarfile
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.lab.nccl.wheels import cache

SOURCES = ("0.5.0", "0.5.1", "0.5.1.3", "0.5.2", "0.5.2.1", "0.5.3", "0.5.3.3", "0.6.0", "0.7.1")
WHEELS = (
    *("0.7.3", "0.7.5", "0.7.6", "0.8.1", "0.8.5", "0.9.0", "0.10.0", "1.0.0", "1.0.8", "1.1.0", "1.1.8", "1.2.0"),
    *("1.2.10", "1.3.0", "1.3.8", "1.4.0", "1.4.9", "1.5.0", "1.5.10", "1.6.0", "1.6.5", "1.7.0", "1.7.4", "1.7.7"),
    *(
        "1.8.0",
        "1.8.6",
        "1.9.0",
        "1.9.1",
        "1.9.2",
        "1.9.5",
        "2.0.0",
        "2.0.9",
        "2.1.0",
        "2.2.0",
        "2.3.0",
        "2.4.0",
        "2.5.0",
        "2.6.0",
    ),
)
"""The first release of each minor version, and the last where it has several; of the first years each that matters."""
TRAINER = "pytorch_lightning/trainer/trainer.py"
STRATEGIES = ("pytorch_lightning/trainer/connectors/accelerator_connector.py", "registry.py")
Release = tuple[int, ...]


def folder() -> Path:
    return cache() / "lightning"


def fetch() -> None:
    """Download what is not there."""
    folder().mkdir(parents=True, exist_ok=True)
    there = set(releases())
    for release in (*SOURCES, *WHEELS):
        if parsed(release) not in there:
            kind = ["--no-binary", "pytorch-lightning"] if release in SOURCES else ["--only-binary", ":all:"]
            subprocess.run(
                [
                    *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *kind, "--dest", str(folder())),
                    f"pytorch-lightning=={release}",
                ],
                check=True,
                timeout=300,
            )


def parsed(release: str) -> Release:
    return tuple(map(int, release.split(".")))


def releases() -> dict[Release, tuple[str, ...]]:
    """Those that are there, the oldest first, with the arguments of their Trainer."""
    found = {}
    for file in folder().glob("pytorch?lightning-*"):
        version = re.match(r"pytorch.lightning-(\d+(?:\.\d+)*)", file.name)
        if version is not None:
            found[parsed(version[1])] = arguments(source(file))
    return dict(sorted(found.items()))


def source(file: Path) -> bytes:
    """Of the Trainer's module."""
    if file.suffix == ".whl":
        with zipfile.ZipFile(file) as wheel:
            return wheel.read(TRAINER)
    with tarfile.open(file) as archive:
        name = next(name for name in archive.getnames() if name.endswith(f"/{TRAINER}"))
        member = archive.extractfile(name)
        assert member is not None
        return member.read()


def wheel(release: str, ends: tuple[str, ...] = STRATEGIES) -> str:
    """Its modules of these names as one text, if none are given what its Trainer reads strategy= with; empty where the
    release is not there."""
    file = next(folder().glob(f"pytorch_lightning-{release}-*.whl"), None)
    if file is None:
        return ""
    with zipfile.ZipFile(file) as archive:
        names = [name for name in archive.namelist() if name.endswith(ends)]
        return "\n".join(archive.read(name).decode() for name in names)


def arguments(text: bytes) -> tuple[str, ...]:
    """Of `Trainer.__init__`, without self."""
    with warnings.catch_warnings():  # an old module's escapes, of which Python complains today
        warnings.simplefilter("ignore")
        tree = ast.parse(text)
    trainer = next(each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == "Trainer")
    start = next(each for each in trainer.body if isinstance(each, ast.FunctionDef) and each.name == "__init__")
    return tuple(each.arg for each in (*start.args.args, *start.args.kwonlyargs) if each.arg != "self")


def ranges(known: Mapping[Release, tuple[str, ...]]) -> Iterator[tuple[str, Release, Release]]:
    """Each argument with the first release that has it, and the first that has it no more."""
    every = list(known)
    for name in sorted({name for names in known.values() for name in names}):
        having = [release for release in every if name in known[release]]
        assert having == every[every.index(having[0]) : every.index(having[-1]) + 1], f"{name} was away for a while"
        behind = every[every.index(having[-1]) + 1 :]
        yield name, _short(having[0]), _short(behind[0]) if behind else ()


def _short(release: Release) -> Release:
    """The minor version is enough, but where arguments came with a patch."""
    return release[:2] if release[:2] not in ((0, 5), (0, 7)) or release[:3] == (0, 5, 0) else release[:3]


if __name__ == "__main__":
    if sys.argv[1:] == ["fetch"]:
        fetch()
    for name, first, gone in ranges(releases()):
        print(f'    "{name}": ({first}, {gone}),')
