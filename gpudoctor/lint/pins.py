"""The versions that a repository asks for: requirements*.txt, environment*.yml and pyproject.toml beside a start or
above it, up to the repository's root.

What is installed where gpudoctor runs is often not what the training runs with: a text is linted on a laptop, in CI, or
in gpudoctor's own environment.
"""

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from gpudoctor import bounded
from gpudoctor.lazy import lazy_re
from gpudoctor.lint.facts import ALIASES, mattering
from gpudoctor.settings import upwards

FILES = ("requirements*.txt", "environment*.yml", "environment*.yaml", "pyproject.toml")
MOST_FILES = 8
LONGEST = 1 << 18

_ASKED = lazy_re(
    r"""^[ \t]*(?:-[ \t]*)?["']?([A-Za-z][\w.-]*)(?:\[[\w,. -]*\])?[ \t]*"""
    r"""((?:(?:[=<>!~]=?=?)[ \t]*[\w.*+-]+(?:=\w+)?[ \t]*,?[ \t]*)+)""",
    re.MULTILINE,
)
"""One package a line, as pip, conda and lists of pyproject.toml have it."""
_CLAUSE = lazy_re(r"([=<>!~]=?=?)[ \t]*(\d+(?:\.\d+)*)")
Clauses = tuple[tuple[str, str], ...]


def pinned(file: str, installed: Mapping[str, str]) -> dict[str, str]:
    """Package -> version where the repository asks for another than is installed; "" where it only refuses that one."""
    try:
        folder = Path(file).absolute().parent
    except OSError:  # the folder that it is started in is gone
        return {}
    told = {name: _version(clauses, installed.get(name)) for name, clauses in _asked_in(folder).items()}
    return {name: version for name, version in told.items() if version is not None}


def forget() -> None:
    """They are read again, by what runs on while they change."""
    _asked_in.cache_clear()


@lru_cache(maxsize=4096)
def _asked_in(folder: Path) -> dict[str, Clauses]:
    """The nearest file wins; a package that files of one folder ask for otherwise is not told."""
    asked: dict[str, Clauses] = {}
    for each in upwards(folder):
        here: dict[str, Clauses] = {}
        try:
            paths = [path for pattern in FILES for path in sorted(each.glob(pattern))]
        except OSError:
            continue
        for path in paths[:MOST_FILES]:
            for name, clauses in _asked(_text(str(path))):
                here[name] = clauses if here.get(name, clauses) == clauses else ()
        asked = {**here, **asked}
    return asked


def _text(path: str) -> str:
    """Of a regular file; nothing of what cannot be read."""
    try:
        with os.fdopen(bounded.regular(path), "rb") as file:
            return file.read(LONGEST).decode("utf-8", "replace")
    except (OSError, ValueError, bounded.Refused):
        return ""


def _asked(text: str) -> list[tuple[str, Clauses]]:
    found = []
    for line in _ASKED.finditer(text):
        name = re.sub(r"[-_.]+", "-", line[1]).lower()
        name = ALIASES.get(name, name)
        if name in mattering():
            found.append((name, tuple((clause[1], clause[2]) for clause in _CLAUSE.finditer(line[2]))))
    return found


def _version(clauses: Clauses, installed: str | None) -> str | None:
    """None: what is installed may be it, or nothing is told."""
    exact = [version for sign, version in clauses if sign in ("=", "==", "===", "~=")]
    if len(exact) == 1:
        return exact[0]
    have = _numbers(installed or "")
    if exact or not have or all(_allows(sign, _numbers(version), have) for sign, version in clauses):
        return None
    least = [version for sign, version in clauses if sign in (">", ">=")]
    return least[0] if len(least) == 1 else ""


def _allows(sign: str, wanted: tuple[int, ...], have: tuple[int, ...]) -> bool:
    if sign in ("<", "<="):
        return have < wanted or (sign == "<=" and have[: len(wanted)] == wanted)
    return have >= wanted if sign in (">", ">=") else True


def _numbers(version: str) -> tuple[int, ...]:
    match = re.match(r"\d{1,9}(?:\.\d{1,9}){0,5}", version, re.ASCII)
    return tuple(map(int, match[0].split("."))) if match else ()
