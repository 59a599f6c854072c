"""Snapshots in which one text is another everywhere that it stands, so that what belongs together still does."""

from collections.abc import Iterator
from typing import Any

import msgspec

from gpudoctor.snapshot import Snapshot

Path = tuple[Any, ...]

HOSTILE = {
    "a second command, with everything that a shell reads": "a;rm -rf x&|<>()#*?[x]{a,b}\\ $HOME",
    "a substitution": "$(rm x)${IFS}`rm x`",
    "quotes of both kinds": "a'b\"c'; rm -rf x; '",
    "a second line": "a\nrm -rf x",
    "a carriage return": "a\rrm -rf x",
    "a tab": "a\trm",
    "a sequence that the terminal obeys": "a\x1b]0;x\x07\x1b[2J\x9b1m",
    "text that shows in another order than it runs": "a\u202eexe.y\u2066",
    "a line separator of Unicode": "a\u2028rm\u2029x\x85y",
    "half of a character": "a\udcffb\ud800",
    "an option": "-rf",
    "the end of options": "--",
    "an option of ssh that runs a program": "-oProxyCommand=x",
    "the path of a program, as zsh reads it": "=rm",
    "somebody's home folder": "~root",
    "history, as an interactive shell reads it": "!!",
    "every file": "*",
    "more than a screen": "x" * 100_000,
    "nothing": "",
    "a NUL": "a\0b",
    "a sed command that runs a program": "x/d;1e rm x\\",
    "Python that runs a program": "x'); import os; os.system('rm x') #",
    "a folder above": "/dev/../../etc/shadow",
}
"""Weakness -> the text that tries it."""


def texts(value: Any) -> dict[str, list[Path]]:
    """Every text in a snapshot -> the places where it stands; a place is a path of fields, keys and positions."""
    found: dict[str, list[Path]] = {}
    for path, text in _walk(value, ()):
        found.setdefault(text, []).append(path)
    return found


def _walk(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from _walk(getattr(value, name), (*path, name))
    elif isinstance(value, dict):
        for key, each in value.items():
            if isinstance(key, str):
                yield (*path, _Key(key)), key
            yield from _walk(each, (*path, key))
    elif isinstance(value, (tuple, list)):
        for position, each in enumerate(value):
            yield from _walk(each, (*path, position))


class _Key(str):
    """The last step of a path to a key itself."""


def replaced(value: Any, paths: list[Path], old: str, new: str) -> Any:
    """`value` with `new` in the place of `old`, in the texts at these paths."""
    if not paths:
        return value
    if paths == [()]:
        return value.replace(old, new) if old else new
    steps: dict[Any, list[Path]] = {}
    keys = set()
    for first, *rest in paths:
        if isinstance(first, _Key):
            keys.add(str(first))
        else:
            steps.setdefault(first, []).append(tuple(rest))
    if isinstance(value, msgspec.Struct):
        changes = {name: replaced(getattr(value, name), below, old, new) for name, below in steps.items()}
        return msgspec.structs.replace(value, **changes)
    if isinstance(value, dict):
        return {
            (key.replace(old, new) if key in keys else key): replaced(each, steps.get(key, []), old, new)
            for key, each in value.items()
        }
    items = [replaced(each, steps.get(position, []), old, new) for position, each in enumerate(value)]
    return type(value)(*items) if hasattr(value, "_fields") else tuple(items)


def mutated(machine: Snapshot, where: dict[str, list[Path]], old: str, new: str) -> Snapshot:
    """The machine with `new` for `old` wherever a text holds it; `where` is `texts(machine)`."""
    paths = [path for text, places in where.items() if old in text for path in places]
    changed: Snapshot = replaced(machine, paths, old, new)
    return changed
