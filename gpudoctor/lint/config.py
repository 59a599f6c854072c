"""What a repository says once for all its starts: facts of its cluster, and rules that are off there.

`gpudoctor.toml` ([lint]) or `pyproject.toml` ([tool.gpudoctor.lint]): the nearest one, from the folder of the linted
file up to the root of its git repository; outside of a repository only that folder, for above it may lie anybody's.
It is data: nothing in it is run, and it can name no other file.
"""

import os
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from gpudoctor import bounded
from gpudoctor.errors import BadInput
from gpudoctor.lint.facts import FactsProblem, parse_facts, shown
from gpudoctor.lint.model import LintFacts

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

OWN, SHARED = "gpudoctor.toml", "pyproject.toml"
HIGHEST = 64
"""Folders that are looked into, upwards."""


class BadConfig(BadInput):
    """A config cannot be used; the message is one line for the user."""


class LintConfig(Struct, frozen=True):
    """What a config says."""

    path: str = ""
    facts: LintFacts = LintFacts()
    off: tuple[str, ...] = ()
    """Codes and ids of rules."""


def config_for(file: str) -> LintConfig:
    """The config that holds for a file, which need not exist. Raises `BadConfig` for one that cannot be used."""
    try:
        return _config_in(Path(file).absolute().parent)
    except OSError:  # the folder that it is started in is gone
        return LintConfig()


def forget() -> None:
    """Configs are read again, by what runs on while they change."""
    _config_in.cache_clear()


@lru_cache(maxsize=4096)
def _config_in(folder: Path) -> LintConfig:
    for each in _upwards(folder):
        for name in (OWN, SHARED):
            found = _read(each / name)
            if found is not None:
                return found
    return LintConfig()


def _upwards(folder: Path) -> Iterator[Path]:
    every = (folder, *folder.parents)[:HIGHEST]
    root = next((index for index, each in enumerate(every) if _is_there(each / ".git")), 0)
    yield from every[: root + 1]


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def _read(path: Path) -> LintConfig | None:
    """None: there is none, or it says nothing of us."""
    if not _is_there(path):
        return None
    try:
        with os.fdopen(bounded.regular(path), "rb") as file:
            raw = file.read(bounded.SCRIPT.size + 1)
        if len(raw) > bounded.SCRIPT.size:
            raise bounded.Refused(f"it is larger than {bounded.SCRIPT.size >> 20} MiB")
        text = raw.decode()
        if path.name == SHARED and "gpudoctor" not in text:
            return None
        tree: Any = tomllib.loads(text)
    except OSError as error:
        raise BadConfig(f"{path}: {bounded.reason(error)}") from None
    except RecursionError:
        raise BadConfig(f"{path}: it is nested too deep") from None
    except (bounded.Refused, ValueError) as error:
        raise BadConfig(f"{path}: {' '.join(str(error).split())}") from None
    other = next((name for name in tree if name != "lint"), None) if path.name == OWN else None
    if other is not None:
        raise BadConfig(f"{path}: {shown(other)} is not known; known: the table [lint]")
    where = ("lint",) if path.name == OWN else ("tool", "gpudoctor", "lint")
    for name in where:
        tree = tree.get(name) if isinstance(tree, dict) else None
    if tree is None:
        return None
    try:
        return _config(str(path), tree)
    except FactsProblem as error:
        raise BadConfig(f"{path}: [{'.'.join(where)}] {str(error).removeprefix('--facts: ')}") from None


def _config(path: str, table: Any) -> LintConfig:
    """Raises `FactsProblem`."""
    from gpudoctor.lint.rule import every_rule

    if not isinstance(table, dict):
        raise FactsProblem("is no table")
    for name in table:
        if name not in ("facts", "off"):
            raise FactsProblem(f"{shown(name)} is not known; known: facts, off")
    off, facts = table.get("off", []), table.get("facts", {})
    if not isinstance(off, list) or not all(isinstance(each, str) for each in off):
        raise FactsProblem('off is a list of codes or ids of rules: off = ["P03"]')
    known = {name for rule in every_rule() for name in (rule.code, rule.id)}
    unknown = next((each for each in off if each not in known), None)
    if unknown is not None:
        raise FactsProblem(f"off: no rule of lint has the code or id {shown(unknown)}")
    if not isinstance(facts, dict) or not all(type(each) in (str, int) for each in facts.values()):
        raise FactsProblem('facts is a table of numbers and versions: facts = {nodes = 2, torch = "2.4"}')
    pieces = [f"{name}={value}" for name, value in facts.items()]
    if any("," in piece for piece in pieces):
        raise FactsProblem("facts: a name or value has a comma")
    return LintConfig(path, parse_facts(",".join(pieces)), tuple(off))
