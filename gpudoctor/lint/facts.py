"""What is known besides the text: --facts, --env FILE, installed packages, a snapshot.

Nothing is run: versions are read from the names of `*.dist-info` folders.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from gpudoctor.errors import BadInput
from gpudoctor.launcher import registry
from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import LintFacts

NAME = lazy_re(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
PACKAGE = lazy_re(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", re.ASCII)
VERSION = lazy_re(r"\d[A-Za-z0-9.+!_-]*", re.ASCII)
MOST = 1_000_000
"""More nodes or GPUs than any machine has: our own limit, against typing errors."""

ALIASES = {"pytorch": "torch", "pytorch-lightning": "lightning", "pytorch_lightning": "lightning", "pl": "lightning"}
"""Names that people give, and the one that rules ask for."""
BESIDE = ("transformers", "mpi4py", "torchtune", "megatron-core", "nemo-run", "fairscale")


@cache
def mattering() -> frozenset[str]:
    """Distributions that rules may ask for: the launchers', and some beside them."""
    named = (name for traits in registry.every() for name in (traits.package, *traits.other_packages) if name)
    return frozenset((*BESIDE, *(name.replace("_", "-") for name in named)))


class FactsProblem(BadInput):
    """--facts or --env cannot be read; the message is one line for the user."""


def parse_facts(text: str) -> LintFacts:
    """ "nodes=2,gpus_per_node=4,torch=2.4" -> Facts. Raises FactsProblem."""
    counts: dict[str, int] = {}
    versions: dict[str, str] = {}
    given: list[str] = []
    for piece in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (part.strip() for part in piece.partition("="))
        name = name.replace("-", "_") if name.replace("-", "_") in ("nodes", "gpus_per_node") else name.lower()
        name = ALIASES.get(name, name).replace("_", "-") if name not in ("nodes", "gpus_per_node") else name
        if not equals or not value:
            raise FactsProblem(f"--facts: {shown(piece)} is no NAME=VALUE, as in nodes=2,gpus_per_node=4,torch=2.4")
        if name in given:
            raise FactsProblem(f"--facts: {name} is given twice")
        if name in ("nodes", "gpus_per_node"):
            if not re.fullmatch(r"\d{1,9}", value, re.ASCII) or not int(name == "nodes") <= int(value) <= MOST:
                raise FactsProblem(f"--facts: {name} is a whole number, not {shown(value)}")
            counts[name] = int(value)
        elif not PACKAGE.fullmatch(name):
            raise FactsProblem(f"--facts: {shown(name)} is neither nodes, gpus_per_node nor a package's name")
        elif not VERSION.fullmatch(value):
            raise FactsProblem(f"--facts: {name} is a version such as 2.4, not {shown(value)}")
        else:
            versions[name] = value
        given.append(name)
    return LintFacts(
        nodes=counts.get("nodes"), gpus_per_node=counts.get("gpus_per_node"), versions=versions, given=tuple(given)
    )


def shown(text: str) -> str:
    """For a message: quoted, short, nothing that steers a terminal."""
    return ascii(text if len(text) <= 60 else text[:57] + "...")


def installed(python: str | Path) -> dict[str, str]:
    """Distribution -> version of the packages of a Python interpreter that matter to a launch; {} when unreadable."""
    versions: dict[str, str] = {}
    for folder in site_packages(Path(python)):
        try:
            names = sorted(path.name for path in folder.iterdir())
        except OSError:
            continue
        for name in names:
            stem, _, ending = name.rpartition(".")
            if ending not in ("dist-info", "egg-info"):
                continue
            distribution, _, version = stem.partition("-")
            distribution = re.sub(r"[-_.]+", "-", distribution).lower()
            version = version.partition("-")[0]
            if distribution in mattering() and VERSION.fullmatch(version):
                versions.setdefault(distribution, version)
    return known_names(versions)


def known_names(packages: Mapping[str, str]) -> dict[str, str]:
    """The packages that matter, under the names that rules ask for."""
    versions = {name: version for name, version in packages.items() if name in mattering()}
    lightning = versions.pop("pytorch-lightning", None)
    if lightning is not None:
        versions.setdefault("lightning", lightning)
    return versions


def site_packages(python: Path) -> Iterator[Path]:
    """Where an interpreter's packages lie: those of its virtual environment, else those of its installation."""
    try:
        folders = [python.parent.parent]
        if not (folders[0] / "pyvenv.cfg").is_file():
            folders.append(python.resolve().parent.parent)
        for folder in dict.fromkeys(folders):
            for pattern in ("lib/python3*/site-packages", "lib/python3*/dist-packages", "lib/python3/dist-packages"):
                yield from sorted(folder.glob(pattern))
            yield from sorted((folder / "local").glob("lib/python3*/dist-packages"))
    except (OSError, RuntimeError, ValueError):  # a loop of links, a NUL in the path
        return


def read_env_file(text: str) -> dict[str, str]:
    """The variables of `NAME=value` lines, `export` and quotes allowed. Raises FactsProblem with the line."""
    variables: dict[str, str] = {}
    for number, raw in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        name, equals, value = re.sub(r"^export\s+", "", line).partition("=")
        if not equals or not NAME.fullmatch(name):
            raise FactsProblem(f"--env: line {number} is no NAME=value: {shown(line)}")
        if "\0" in value:
            raise FactsProblem(f"--env: line {number}: a variable cannot hold a NUL character")
        try:
            words = shlex.split(value, comments=True)
        except ValueError:
            raise FactsProblem(f"--env: line {number}: a quote is opened and not closed: {shown(line)}") from None
        variables[name] = " ".join(words)
    return variables


def merged(given: LintFacts, facts: LintFacts) -> LintFacts:
    """What the user gave wins over what was found."""
    return LintFacts(
        nodes=given.nodes if given.nodes is not None else facts.nodes,
        gpus_per_node=given.gpus_per_node if given.gpus_per_node is not None else facts.gpus_per_node,
        versions={**facts.versions, **given.versions},
        variables={**facts.variables, **given.variables},
        given=given.given,
    )
