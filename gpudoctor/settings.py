"""What a repository says once for a command: [run] of `gpudoctor.toml`, or [tool.gpudoctor.run] of `pyproject.toml`.

The nearest one, from a folder up to the root of its git repository; outside of a repository only that folder, for above
it may lie anybody's. It is data: nothing in it is run.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from gpudoctor import bounded
from gpudoctor.errors import BadInput

OWN, SHARED = "gpudoctor.toml", "pyproject.toml"
SECTIONS = ("lint", "run")
HIGHEST = 64
"""Folders that are looked into, upwards."""


class BadConfig(BadInput):
    """A config cannot be used; the message is one line for the user."""


class Table(NamedTuple):
    """What was found."""

    path: str
    name: str
    """ "[tool.gpudoctor.run]"."""
    content: Any


def nearest(folder: Path, section: str) -> Table | None:
    """The table that holds for what stands in a folder; None: nobody says anything. Raises `BadConfig`."""
    for path in upwards(folder):
        for name in (OWN, SHARED):
            table = _read(path / name, section)
            if table is not None:
                return table
    return None


def upwards(folder: Path) -> Iterator[Path]:
    """A folder and those above it, up to the root of its repository; alone where it is in none."""
    every = (folder, *folder.parents)[:HIGHEST]
    root = next((index for index, path in enumerate(every) if _is_there(path / ".git")), 0)
    yield from every[: root + 1]


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def _read(path: Path, section: str) -> Table | None:
    """None: there is none, or it says nothing of this."""
    if not _is_there(path):
        return None
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
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
    other = next((name for name in tree if name not in SECTIONS), None) if path.name == OWN else None
    if other is not None:
        known = " and ".join(f"[{name}]" for name in SECTIONS)
        raise BadConfig(f"{path}: {other[:60]!a} is not known; known: the tables {known}")
    where = (section,) if path.name == OWN else ("tool", "gpudoctor", section)
    for name in where:
        tree = tree.get(name) if isinstance(tree, dict) else None
    return None if tree is None else Table(str(path), f"[{'.'.join(where)}]", tree)
