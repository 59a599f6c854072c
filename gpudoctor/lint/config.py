"""What a repository says once for all its starts: facts of its cluster, and rules that are off there.

The table [lint] of `settings`. It can name no other file.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from gpudoctor.lint.facts import FactsProblem, parse_facts, shown
from gpudoctor.lint.model import LintFacts
from gpudoctor.settings import BadConfig as BadConfig, nearest


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
    config = nearest(folder, "lint")
    if config is None:
        return LintConfig()
    try:
        return _config(config.path, config.content)
    except FactsProblem as error:
        raise BadConfig(f"{config.path}: {config.name} {str(error).removeprefix('--facts: ')}") from None


def _config(path: str, table: Any) -> LintConfig:
    """Raises `FactsProblem`."""
    from gpudoctor.lint.rule import every_rule

    if not isinstance(table, dict):
        raise FactsProblem("is no table")
    for name in table:
        if name not in ("facts", "off"):
            raise FactsProblem(f"{shown(name)} is not known; known: facts, off")
    off, facts = table.get("off", []), table.get("facts", {})
    if not isinstance(off, list) or not all(isinstance(name, str) for name in off):
        raise FactsProblem('off is a list of codes or ids of rules: off = ["P03"]')
    known = {name for rule in every_rule() for name in (rule.code, rule.id)}
    unknown = next((name for name in off if name not in known), None)
    if unknown is not None:
        raise FactsProblem(f"off: no rule of lint has the code or id {shown(unknown)}")
    if not isinstance(facts, dict) or not all(type(fact) in (str, int) for fact in facts.values()):
        raise FactsProblem('facts is a table of numbers and versions: facts = {nodes = 2, torch = "2.4"}')
    pieces = [f"{name}={value}" for name, value in facts.items()]
    if any("," in piece for piece in pieces):
        raise FactsProblem("facts: a name or value has a comma")
    return LintConfig(path, parse_facts(",".join(pieces)), tuple(off))
