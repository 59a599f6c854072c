"""Numbers and truth values that an object of another process holds as attributes, read from its memory.

What decides a branch lies in `self.stop` as often as in a variable, or in its class. An object's attributes are in a
dictionary, or in an array of values whose names its class keeps; where, differs from release to release (CPython's
Include/cpython/object.h, Include/internal/pycore_dict.h, pycore_object.h, longintrepr.h; tried with 3.11.7, 3.12.1 and
3.13.0).
Nothing is followed that does not look like what it should be: memory that changes meanwhile costs its own answer.
"""

import itertools
import re
import struct
from collections.abc import Iterator
from typing import NamedTuple

from gpudoctor.lazy import lazy_re
from gpudoctor.read.job.tensors import Memory

MOST, MOST_OF_OTHERS, LONGEST_NAME, MOST_KEYS = 48, 8, 64, 512
MOST_CLASSES, MOST_OF_CLASS = 4, 48
"""Classes of an object that are looked into, and how much a class may hold: torch's own modules hold more."""
_NAME = lazy_re(rb"[A-Za-z_]\w*", re.ASCII)
FLAGS, NAME, BASIC_SIZE, BASE, OWN_DICT = 168, 24, 32, 256, 264
"""Of a type object, in bytes."""
MANAGED_DICT, HEAP_TYPE, INLINE_VALUES = 1 << 4, 1 << 9, 1 << 2
KEYS, ENTRIES, MOST_DIGITS = 32, 32, 2


class _ObjectLayout(NamedTuple):
    minor: int
    cached_keys: int
    """Of a heap type: the names of its objects' attributes."""
    text: int
    """Of a short string: its characters."""
    tagged: bool
    """A number begins with its sign and size in one word."""


_LAYOUTS = {
    11: _ObjectLayout(11, 872, 48, False),
    12: _ObjectLayout(12, 880, 40, True),
    13: _ObjectLayout(13, 880, 40, True),
}
CODE, CLOSURE, NAMES, CELL, SIZE, ITEMS = 48, 72, 96, 16, 16, 24
"""Of a function: its code, and the tuple of cells of functions around; of code: its names, those of cells last."""
MOST_ITEMS = 64
FAILED = "failed: "
"""Begins what is told of a task of an executor that has ended with an error, before the error's type."""
TEXT = "text "
"""Begins what is told of a text: not what it says, but by what it differs from another one."""


def numbers_of(memory: Memory, address: int, minor: int, *, deep: bool = False) -> dict[str, str]:
    """The attributes of an object of Python 3.`minor` that are numbers or truth values, by name. `deep`: also those of
    objects that it holds ("state.step")."""
    layout = _LAYOUTS.get(minor)
    if layout is None:
        return {}
    found: dict[str, str] = {}
    others = {}
    for name, value in (*_attributes(memory, address, layout), *_around(memory, address, layout)):
        if text := _number(memory, value, layout):
            found[name] = text
        else:
            others[name] = value
    of_classes = _of_classes(memory, _word(memory, address + 8), layout)
    found |= {name: text for name, text in of_classes.items() if name not in found and name not in others}
    for name, value in others.items() if deep else ():
        if len(found) < MOST:
            if text := failure(memory, value, minor):
                found[name] = text
            own = (each for each in numbers_of(memory, value, minor).items() if not each[0].startswith("_"))
            found |= {f"{name}.{attribute}": text for attribute, text in itertools.islice(own, MOST_OF_OTHERS)}
    return dict(list(found.items())[:MOST])


def _around(memory: Memory, address: int, layout: _ObjectLayout) -> Iterator[tuple[str, int]]:
    """What a function has of the functions around it: `nonlocal` too."""
    if _type(memory, address) != "function":
        return
    cells, names = _word(memory, address + CLOSURE), _word(memory, _word(memory, address + CODE) + NAMES)
    held, named = _items(memory, cells, "tuple"), _items(memory, names, "tuple")
    for cell, name in zip(held, named[len(named) - len(held) :], strict=False):
        yield _text(memory, name, layout), _word(memory, cell + CELL)


def failure(memory: Memory, address: int, minor: int) -> str:
    """ "failed: OSError" of a task of concurrent.futures that has ended so, or of the first such one of a list."""
    layout = _LAYOUTS.get(minor)
    if layout is None:
        return ""
    for task in _items(memory, address, "list") or (address,):
        held = dict(_attributes(memory, task, layout)) if _type(memory, task) == "Future" else {}
        error = _type(memory, held.get("_exception", 0)) if "_waiters" in held else "NoneType"
        if error not in ("", "NoneType"):
            return f"{FAILED}{error}"
    return ""


def _items(memory: Memory, address: int, kind: str) -> tuple[int, ...]:
    """Of a list or a tuple."""
    if _type(memory, address) != kind:
        return ()
    first = address + ITEMS if kind == "tuple" else _word(memory, address + ITEMS)
    return memory.words(first, min(max(0, _word(memory, address + SIZE)), MOST_ITEMS))


def _type(memory: Memory, address: int) -> str:
    raw = memory.read(_word(memory, _word(memory, address + 8) + NAME), LONGEST_NAME).partition(b"\0")[0]
    return raw.decode() if _NAME.fullmatch(raw) else ""


def _of_classes(memory: Memory, kind: int, layout: _ObjectLayout) -> dict[str, str]:
    """Numbers that an object's class has, and those from which it inherits: each is read once of a process."""
    if (known := memory.kept.get(kind)) is not None:
        return known
    found: dict[str, str] = {}
    own = kind
    for _ in range(MOST_CLASSES):
        if not _word(memory, own + FLAGS) & HEAP_TYPE:
            break
        keys = _word(memory, _word(memory, own + OWN_DICT) + KEYS)
        used = int.from_bytes(memory.read(keys + 24, 8), "little")
        for name, value in _entries(memory, keys, 0, layout) if 0 < used <= MOST_OF_CLASS else ():
            if not name.startswith("_") and name not in found and (text := _number(memory, value, layout)):
                found[name] = text
        own = _word(memory, own + BASE)
    memory.kept[kind] = found
    return found


def _attributes(memory: Memory, address: int, layout: _ObjectLayout) -> Iterator[tuple[str, int]]:
    kind = _word(memory, address + 8)
    flags = _word(memory, kind + FLAGS)
    if not flags & MANAGED_DICT or not flags & HEAP_TYPE:
        return
    held = _word(memory, address - 24)
    values, minor = 0, layout.minor
    if minor == 11:
        values = _word(memory, address - 32)
    elif minor == 12:
        values, held = (held + 1, 0) if held & 1 else (0, held)
    elif flags & INLINE_VALUES and not held:
        inline = address + _word(memory, kind + BASIC_SIZE)
        values = inline + 8 if memory.read(inline, 4)[3:] == b"\1" else 0
    if held:
        keys, values = _word(memory, held + KEYS), _word(memory, held + KEYS + 8)
        if values and minor == 13:
            values += 8
    else:
        keys = _word(memory, kind + layout.cached_keys)
    if keys:
        yield from _entries(memory, keys, values, layout)


def _entries(memory: Memory, keys: int, values: int, layout: _ObjectLayout) -> Iterator[tuple[str, int]]:
    head = memory.read(keys, ENTRIES)
    if len(head) < ENTRIES or head[9] > 20:
        return
    number = min(int.from_bytes(head[24:32], "little"), MOST_KEYS)
    first, size = ENTRIES + (1 << head[9]), 24 if head[10] == 0 else 16
    entries = memory.words(keys + first, number * size // 8)
    for at in range(min(number, len(entries) * 8 // size)):
        key, value = entries[at * size // 8 :][size // 8 - 2 : size // 8]
        if values:
            value = _word(memory, values + 8 * at)
        if value and (name := _text(memory, key, layout)):
            yield name, value


def _text(memory: Memory, address: int, layout: _ObjectLayout) -> str:
    length = _word(memory, address + 16)
    raw = memory.read(address + layout.text, length) if 0 < length <= LONGEST_NAME else b""
    return raw.decode() if len(raw) == length and _NAME.fullmatch(raw) else ""


def _number(memory: Memory, address: int, layout: _ObjectLayout) -> str:
    head = memory.read(address, 32)
    if len(head) < 32:
        return ""
    name = memory.read(_word(memory, int.from_bytes(head[8:16], "little") + NAME), 6)
    kind = name.partition(b"\0")[0]
    if kind == b"float":
        return f"{struct.unpack('<d', head[16:24])[0]:.17g}"
    if kind not in (b"int", b"bool"):
        return ""
    size = struct.unpack("<q", head[16:24])[0]
    digits, negative = (size >> 3, size & 3 == 2) if layout.tagged else (abs(size), size < 0)
    if not 0 <= digits <= MOST_DIGITS:
        return ""
    low, high = struct.unpack("<II", head[24:32])
    value = (low if digits else 0) + ((high << 30) if digits == MOST_DIGITS else 0)
    return str(bool(value)) if kind == b"bool" else str(-value if negative else value)


def _word(memory: Memory, address: int) -> int:
    return next(iter(memory.words(address, 1)), 0)
