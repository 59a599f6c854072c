"""The bytes of a flight recorder's dump as plain values: a pickle that nothing can be run from, or JSON.

A dump comes from a job that may be somebody else's, so `pickle.loads` is out of the question. Refusing globals alone is
not enough either: a pickle can also ask for a huge memo, or for a key whose hash takes for ever. So the instructions
are followed here one by one, for the values that a recorder has: numbers, texts, lists, dictionaries, pairs. What torch
itself writes uses few instructions, in an order that one regular expression can check; such a dump is then given to the
C unpickler, which together takes a fifth of the time.
"""

import gc
import pickle
import re
import struct
from collections.abc import Callable
from io import BufferedReader, BytesIO
from typing import Any, TypeVar

import msgspec

MOST_BYTES = 32 * 1024 * 1024
"""2,000 entries with their stacks take 0.3 to 3 MB, with C++ stacks some 15 MB."""
MOST_CONTAINERS = 1_500_000
"""Lists and dictionaries in one dump; 2,000 entries have 16,000."""
MOST_INSTRUCTIONS = 4_000_000
"""Followed one by one, some two seconds; 2,000 entries have 200,000."""
MOST_DIGITS = 20
T = TypeVar("T")


class UnreadableDump(Exception):
    """Not a flight recorder's dump, or only a part of one. The text says in what way."""


class RefusedDump(UnreadableDump):
    """It asks for something to be run, which no recorder's dump does. The text names what."""


def plain(raw: bytes) -> object:
    """The value that a dump holds, of None, bool, int, float, str, list, tuple and dict.

    Raises `RefusedDump` and `UnreadableDump`, nothing else.
    """
    if len(raw) > MOST_BYTES:
        raise UnreadableDump(f"it has more than {MOST_BYTES // 1024 // 1024} MiB")
    if not raw:
        raise UnreadableDump("it is empty")
    if raw.lstrip()[:1] in (b"{", b"["):
        return _json(raw)
    try:
        if _as_torch_writes(raw):
            return _Unpickler(BufferedReader(BytesIO(raw), 1 << 20)).load()
        return _Machine(raw).run()
    except UnreadableDump:
        raise
    except (IndexError, EOFError, struct.error):
        raise UnreadableDump("it ends in the middle; the job may still be writing it") from None
    except MemoryError:
        raise UnreadableDump("it asks for more memory than there is") from None
    except Exception as error:  # every way in which a pickle can be broken has an exception of its own
        raise UnreadableDump(f"it is a broken pickle: {str(error)[:200] or type(error).__name__}") from None


def _json(raw: bytes) -> object:
    if raw.count(b"[") + raw.count(b"{") > MOST_CONTAINERS:
        raise UnreadableDump("it has more lists than a flight recorder")
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, MemoryError) as error:
        raise UnreadableDump(f"it is broken JSON: {str(error)[:200]}") from None


# ---------------------------------------------------------------- what torch writes

_GET = rb"(?:h.|j..[\x00-\x1f]\x00)"
_PUT = rb"(?:q.|r..[\x00-\x1f]\x00)"
_PAIR = rb"(?:" + _GET + rb"\x86(?![qr\x94]))"
_RUN = re.compile(
    rb"(?:h."
    + _PAIR
    + rb"?|K.|[Nasue\x88\x89]|\((?![eu])|\](?:(?:"
    + _PUT
    + rb")?\(e)?|\}(?:(?:"
    + _PUT
    + rb")?\(u)?|j..[\x00-\x1f]\x00"
    + _PAIR
    + rb"?|"
    + _PUT
    + rb"|M..|J....|\x8a(?:\x08.{8}|\x05.{5}|\x06.{6}|\x07.{7}|\x04.{4}|\x03...|\x02..|\x01.|\x00)|G.{8}){0,4000}",
    re.DOTALL,
)
"""Instructions of known length, in any number: a value said before, an empty list or dictionary, an entry of one, a
number, and a pair of two values said before. A pair is not kept for later, so that none can hold another."""
_AFTER_TEXT = re.compile(_PUT + rb"?(\x86(?![qr\x94]))?", re.DOTALL)
MOST_PAIRS_OF_TEXT = 1000
"""A pair whose second value is a new text could hold a pair: their depth is bounded."""


def _as_torch_writes(raw: bytes) -> bool:
    """Whether every instruction is one of those that torch's own pickler uses for a recorder, in the forms above."""
    if raw[:2] != b"\x80\x02" or raw.count(b"]") + raw.count(b"}") > MOST_CONTAINERS:
        return False
    at, end, pairs = 2, len(raw), 0
    while True:
        if found := _RUN.match(raw, at):
            moved = found.end() > at
            at = found.end()
        if at >= end:
            return False
        code = raw[at]
        if code == 0x58:  # BINUNICODE
            at += 5 + int.from_bytes(raw[at + 1 : at + 5], "little")
            after = _AFTER_TEXT.match(raw, at) if at < end else None
            if after is None:
                return False
            pairs += after[1] is not None
            if pairs > MOST_PAIRS_OF_TEXT:
                return False
            at = after.end()
        elif code == 0x2E:  # STOP
            return True
        elif not moved:
            return False


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise RefusedDump(f"it wants to load {_printable(module)}.{_printable(name)}")

    def persistent_load(self, pid: Any) -> Any:
        raise RefusedDump("it wants a persistent object")


# ---------------------------------------------------------------- everything else that a pickle may say

_MARK = object()
_RUNS_SOMETHING = {
    "R": "to call something",
    "b": "to set up an object",
    "o": "to make an object",
    "\x81": "to make an object",
    "\x92": "to make an object",
    "P": "a persistent object",
    "Q": "a persistent object",
    "\x82": "an extension's object",
    "\x83": "an extension's object",
    "\x84": "an extension's object",
    "\x97": "a buffer of another program",
    "\x98": "a buffer of another program",
}


class _Machine:
    """Follows a pickle's instructions (pickletools has their list) and makes plain values only."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.at = 0
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def take(self, count: int) -> bytes:
        piece = self.raw[self.at : self.at + count]
        if len(piece) < count:
            raise UnreadableDump("it ends in the middle; the job may still be writing it")
        self.at += count
        return piece

    def line(self) -> bytes:
        end = self.raw.find(b"\n", self.at, self.at + 4096)
        if end < 0:
            raise UnreadableDump("it ends in the middle, or is no pickle")
        piece = self.raw[self.at : end]
        self.at = end + 1
        return piece

    def run(self) -> object:
        raw, stack, handlers = self.raw, self.stack, _HANDLERS
        for _ in range(MOST_INSTRUCTIONS):
            code = raw[self.at]
            self.at += 1
            if code == 0x2E:  # STOP
                value = stack.pop()
                if value is _MARK:
                    break
                return value
            handler = handlers[code]
            if handler is None:
                raise self.refusal(code)
            handler(self)
        else:
            raise UnreadableDump("it has more instructions than a flight recorder")
        raise UnreadableDump("it is a broken pickle: nothing is left of it at its end")

    def refusal(self, code: int) -> UnreadableDump:
        letter = chr(code)
        if letter in ("c", "i"):
            names = f"{_printable(self.line().decode('utf-8', 'replace'))}."
            return RefusedDump(f"it wants to load {names}{_printable(self.line().decode('utf-8', 'replace'))}")
        if letter == "\x93":
            module, name = ([None, None, *self.stack])[-2:]
            return RefusedDump(f"it wants to load {_printable(str(module))}.{_printable(str(name))}")
        if letter in _RUNS_SOMETHING:
            return RefusedDump(f"it wants {_RUNS_SOMETHING[letter]}")
        return UnreadableDump(f"it is no pickle, or none of a flight recorder (byte {code:#04x} at {self.at - 1})")

    def items(self) -> list[Any]:
        """What was pushed since the last mark, and the mark with it."""
        stack = self.stack
        index = len(stack) - 1
        while stack[index] is not _MARK:
            index -= 1
            if index < 0:
                raise UnreadableDump("it is a broken pickle: a mark is missing")
        found = stack[index + 1 :]
        del stack[index:]
        return found

    def container(self, kind: type) -> Any:
        if not self.stack or type(self.stack[-1]) is not kind:
            raise UnreadableDump("it is a broken pickle: an entry without its list")
        return self.stack[-1]

    def set_items(self, flat: list[Any]) -> None:
        target = self.container(dict)
        if len(flat) % 2:
            raise UnreadableDump("it is a broken pickle: a key without its value")
        for key, value in zip(flat[::2], flat[1::2], strict=True):
            if key is not None and type(key) not in (str, int, bool, float):
                raise UnreadableDump("it is none of a flight recorder: a key is neither text nor number")
            target[key] = value

    def put(self, index: int) -> None:
        if not self.stack or self.stack[-1] is _MARK:
            raise UnreadableDump("it is a broken pickle: nothing to remember")
        self.memo[index] = self.stack[-1]

    def get(self, index: int) -> None:
        if index not in self.memo:
            raise UnreadableDump("it is a broken pickle: it recalls what it never said")
        self.stack.append(self.memo[index])

    def tuple_of(self, count: int) -> None:
        items = self.stack[-count:]
        if len(items) < count or any(item is _MARK for item in items):
            raise UnreadableDump("it is a broken pickle: too little for a tuple")
        del self.stack[-count:]
        self.stack.append(tuple(items))

    def pop(self) -> Any:
        value = self.stack.pop()
        if value is _MARK:
            raise UnreadableDump("it is a broken pickle: a mark in the place of a value")
        return value


Handler = Callable[[_Machine], None]


def _push(value: object) -> Handler:
    return lambda machine: machine.stack.append(value)


def _number(size: int, signed: bool = False) -> Handler:
    return lambda machine: machine.stack.append(int.from_bytes(machine.take(size), "little", signed=signed))


def _length(machine: _Machine, size: int) -> int:
    return int.from_bytes(machine.take(size), "little")


def _text(size: int) -> Handler:
    return lambda machine: machine.stack.append(machine.take(_length(machine, size)).decode("utf-8", "replace"))


def _bytes(size: int) -> Handler:
    return lambda machine: machine.stack.append(machine.take(_length(machine, size)).decode("latin-1"))


def _long(machine: _Machine) -> None:
    machine.stack.append(int.from_bytes(machine.take(_length(machine, 1)), "little", signed=True))


def _decimal(machine: _Machine) -> None:
    text = machine.line().decode("ascii", "replace").rstrip("L")
    if len(text) > MOST_DIGITS:
        raise UnreadableDump("it holds a number that no counter has")
    machine.stack.append({"00": False, "01": True}.get(text, int(text)))


def _append(machine: _Machine) -> None:
    value = machine.pop()
    machine.container(list).append(value)


def _appends(machine: _Machine) -> None:
    items = machine.items()
    machine.container(list).extend(items)


def _set_item(machine: _Machine) -> None:
    value = machine.pop()
    machine.set_items([machine.pop(), value])


def _dictionary(machine: _Machine) -> None:
    items = machine.items()
    machine.stack.append({})
    machine.set_items(items)


def _nothing(machine: _Machine) -> None:
    del machine


_TABLE: dict[int, Handler] = {
    0x80: lambda machine: _nothing(machine) if machine.take(1) else None,  # PROTO
    0x95: lambda machine: _nothing(machine) if machine.take(8) else None,  # FRAME
    0x28: _push(_MARK),
    0x4E: _push(None),
    0x88: _push(True),
    0x89: _push(False),
    0x7D: lambda machine: machine.stack.append({}),
    0x5D: lambda machine: machine.stack.append([]),
    0x29: _push(()),
    0x4B: _number(1),
    0x4D: _number(2),
    0x4A: _number(4, signed=True),
    0x8A: _long,
    0x49: _decimal,  # INT
    0x4C: _decimal,  # LONG
    0x47: lambda machine: machine.stack.append(struct.unpack(">d", machine.take(8))[0]),
    0x46: lambda machine: machine.stack.append(float(machine.line()[: 2 * MOST_DIGITS])),
    0x58: _text(4),
    0x8C: _text(1),
    0x8D: _text(8),
    0x56: lambda machine: machine.stack.append(machine.line().decode("raw_unicode_escape", "replace")),  # UNICODE
    0x53: lambda machine: machine.stack.append(machine.line().decode("utf-8", "replace").strip("'\"")),  # STRING
    0x55: _bytes(1),  # SHORT_BINSTRING
    0x54: _bytes(4),
    0x43: _bytes(1),  # SHORT_BINBYTES
    0x42: _bytes(4),
    0x71: lambda machine: machine.put(_length(machine, 1)),
    0x72: lambda machine: machine.put(_length(machine, 4)),
    0x70: lambda machine: machine.put(int(machine.line()[:MOST_DIGITS])),
    0x94: lambda machine: machine.put(len(machine.memo)),
    0x68: lambda machine: machine.get(_length(machine, 1)),
    0x6A: lambda machine: machine.get(_length(machine, 4)),
    0x67: lambda machine: machine.get(int(machine.line()[:MOST_DIGITS])),
    0x61: _append,
    0x65: _appends,
    0x73: _set_item,
    0x75: lambda machine: machine.set_items(machine.items()),
    0x64: _dictionary,
    0x6C: lambda machine: machine.stack.append(machine.items()),
    0x74: lambda machine: machine.stack.append(tuple(machine.items())),
    0x85: lambda machine: machine.tuple_of(1),
    0x86: lambda machine: machine.tuple_of(2),
    0x87: lambda machine: machine.tuple_of(3),
    0x30: lambda machine: _nothing(machine) if machine.stack.pop() else None,  # POP
    0x31: lambda machine: _nothing(machine) if machine.items() else None,  # POP_MARK
}
_HANDLERS: list[Handler | None] = [_TABLE.get(code) for code in range(256)]


def _printable(text: str) -> str:
    """A name out of a foreign file, for a message."""
    return "".join(letter if letter.isprintable() and letter.isascii() else "?" for letter in text[:80])


def without_collection(run: Callable[[], T]) -> T:
    """Run it without the cycle collector, which looks at every list of a dump again and again while it is made."""
    was = gc.isenabled()
    gc.disable()
    try:
        return run()
    finally:
        if was:
            gc.enable()
