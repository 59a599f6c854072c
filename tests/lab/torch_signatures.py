"""The arguments of torch's functions that programs call to train on several GPUs, in its releases, read from their
wheels by their syntax trees.

    python -m tests.lab.torch_signatures fetch     # once: what is read is kept, the wheels (2 GB in all) are not
    python -m tests.lab.torch_signatures           # the table for gpudoctor/knowledge/pytorch/signatures.py

The wheels are those for macOS, which are the smallest with the same Python sources. Nothing of them is imported.
"""

import ast
import json
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path

from tests.lab.nccl.wheels import cache

RELEASES = (*(f"1.{minor}.0" for minor in range(14)), *(f"2.{minor}.0" for minor in range(15)))
"""The first of each minor version."""
SOURCES: dict[str, tuple[tuple[str, ...], str]] = {
    "DataParallel": (("torch/nn/parallel/data_parallel.py",), "DataParallel.__init__"),
    "DistributedDataParallel": (("torch/nn/parallel/distributed.py",), "DistributedDataParallel.__init__"),
    "FullyShardedDataParallel": (
        ("torch/distributed/fsdp/fully_sharded_data_parallel.py",), "FullyShardedDataParallel.__init__"
    ),
    "init_process_group": (("torch/distributed/distributed_c10d.py",), "init_process_group"),
    "new_group": (("torch/distributed/distributed_c10d.py",), "new_group"),
    "spawn": (("torch/multiprocessing/spawn.py",), "spawn"),
    "start_processes": (("torch/multiprocessing/spawn.py",), "start_processes"),
    "DistributedSampler": (("torch/utils/data/distributed.py",), "DistributedSampler.__init__"),
    "DataLoader": (("torch/utils/data/dataloader.py",), "DataLoader.__init__"),
    "convert_sync_batchnorm": (("torch/nn/modules/batchnorm.py",), "SyncBatchNorm.convert_sync_batchnorm"),
    "autocast": (("torch/amp/autocast_mode.py", "torch/autocast_mode.py"), "autocast.__init__"),
    "GradScaler": (("torch/amp/grad_scaler.py",), "GradScaler.__init__"),
    "cuda.amp.autocast": (("torch/cuda/amp/autocast_mode.py",), "autocast.__init__"),
    "cuda.amp.GradScaler": (("torch/cuda/amp/grad_scaler.py",), "GradScaler.__init__"),
}  # fmt: skip
"""A function -> the modules of which the first that is there has it, and its name in them."""
Release = tuple[int, ...]


def folder() -> Path:
    return cache() / "torch-signatures"


def fetch() -> None:
    """Read what was not read yet."""
    folder().mkdir(parents=True, exist_ok=True)
    for release in RELEASES:
        kept = folder() / f"{release}.json"
        if not kept.exists():
            with tempfile.TemporaryDirectory() as place:
                text = json.dumps(arguments(_download(release, Path(place))))
            kept.write_text(text, encoding="utf-8")


def _download(release: str, place: Path) -> Path:
    arm = release.startswith("2.")
    python = "3.11" if release >= "2.13" and arm and len(release) > 5 else "3.10" if arm else "3.7"
    python = "3.8" if release.startswith(("1.7", "1.8", "1.9", "1.10", "1.11", "1.12", "1.13")) else python
    kinds = [f"macosx_{system}_{'arm64' if arm else 'x86_64'}" for system in ("10_7", "10_9", "11_0", "14_0")]
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"),
            *("--python-version", python, "--dest", str(place), *(f"--platform={kind}" for kind in kinds)),
            f"torch=={release}",
        ],
        check=True,
        timeout=600,
    )
    return next(place.glob("torch-*.whl"))


def arguments(wheel: Path) -> dict[str, list[str] | None]:
    """Function -> its arguments without self; None where ** takes any. What is not there yet is left out."""
    found: dict[str, list[str] | None] = {}
    with zipfile.ZipFile(wheel) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # old modules' escapes, of which Python complains today
        there = set(archive.namelist())
        for name, (modules, path) in SOURCES.items():
            module = next((each for each in modules if each in there), None)
            function = _function(ast.parse(archive.read(module)), path) if module is not None else None
            if function is not None:
                every = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
                names = [each.arg for each in every if each.arg not in ("self", "cls")]
                found[name] = None if function.args.kwarg is not None else names
    return found


def _function(tree: ast.Module, path: str) -> ast.FunctionDef | None:
    """The last of that name: overloads stand before it."""
    outer, _, inner = path.partition(".")
    bodies = [each.body for each in tree.body if isinstance(each, ast.ClassDef) and each.name == outer]
    body = [node for each in bodies for node in each] if inner else tree.body
    found = [each for each in body if isinstance(each, ast.FunctionDef) and each.name == (inner or outer)]
    return found[-1] if found else None


def read() -> dict[Release, dict[str, list[str] | None]]:
    """The releases that were read, the oldest first."""
    files = {tuple(map(int, file.stem.split("."))): file for file in folder().glob("*.json")}
    return {release: json.loads(files[release].read_text(encoding="utf-8")) for release in sorted(files)}


def ranges(known: dict[Release, dict[str, list[str] | None]]) -> Iterator[tuple[str, str, Release, Release]]:
    """Function, argument, the first release that has it, and the first that has it no more. A release that takes any
    name by ** says nothing."""
    for function in SOURCES:
        told = {release: each for release, names in known.items() if (each := names.get(function)) is not None}
        every = list(told)
        for name in dict.fromkeys(name for names in told.values() for name in names):
            having = [release for release in every if name in told[release]]
            assert having == every[every.index(having[0]) : every.index(having[-1]) + 1], f"{name} was away for a while"
            behind = every[every.index(having[-1]) + 1 :]
            yield function, name, having[0][:2], behind[0][:2] if behind else ()


if __name__ == "__main__":
    if sys.argv[1:] == ["fetch"]:
        fetch()
    groups: dict[tuple[str, Release, Release], list[str]] = {}
    for function, name, first, gone in ranges(read()):
        groups.setdefault((function, first, gone), []).append(name)
    for (function, first, gone), names in groups.items():
        print(f'    ("{function}", {first}, {gone}, "{" ".join(names)}"),')
