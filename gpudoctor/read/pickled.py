"""Follows a pickle's instructions (pickletools has their list) without running anything: what is plain is made here.

`pickle.loads` of a stranger's bytes is out of the question, and refusing globals alone is not enough: a pickle can also
ask for a huge memo, or for a key whose hash takes for ever. So the instructions are taken one by one, each thing that
they work on with its limit. What imports, calls or makes objects is left to who knows what to expect of it.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

MARK = object()
MOST_CONTAINERS = 4_000_000
MOST_MEMO = 16_000_000
MOST_DEPTH = 10_000
"""Marks that are open at one time; a state dict has four."""
MOST_DIGITS = 40
MOST_NUMBER_BYTES = 64
LONGEST_TEXT = 1 << 20
"""Bytes; a longer text (an array inside the pickle) is passed over."""
SMALL = 1 << 31
"""Numbers below are keys as they are: there are too few of them to make a dictionary slow."""
LONGEST_KEY = 1000
BEAT = 1_000_000


class Long(NamedTuple):
    """A text or bytes too long to keep."""

    size: int


class Key(str):
    """A key that is no text and no small number, as text: Python's own hashes of numbers and tuples can be foretold, so
    that somebody can choose thousands that collide; those of texts have a salt."""

    def __repr__(self) -> str:
        return str(self)


class PickleMachine:
    """The bytes of pickles, their stack and their memo. Raises `Broken`, and `EOFError` at the end of the bytes.

    `next_value` lets some other errors of Python through, which a broken pickle can cause: `BROKEN`.
    """

    Broken: ClassVar[type[Exception]] = ValueError
    what: ClassVar[str] = "it is a broken pickle"
    most_instructions: ClassVar[int] = 4_000_000
    handlers: "ClassVar[list[Handler | None]]"

    def __init__(self, raw: bytes, at: int = 0) -> None:
        self.raw = raw
        self.at = at
        self._containers = MOST_CONTAINERS
        self._left = self.most_instructions
        self.clear()

    def clear(self) -> None:
        """Before another pickle."""
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.marks = 0

    def broken(self, how: str) -> Exception:
        return self.Broken(f"{self.what}: {how}")

    def beat(self) -> None:
        """Called every million instructions."""

    def refused(self, code: int) -> Exception:
        """For an instruction that is not among the handlers."""
        return self.Broken(f"{self.what} (byte {code:#04x} is no instruction of a pickle)")

    def run(self) -> Any:
        """The value of the next pickle."""
        raw, handlers, end = self.raw, self.handlers, len(self.raw)
        while self._left > 0:
            for _ in range(min(BEAT, self._left)):
                if self.at >= end:
                    raise EOFError
                code = raw[self.at]
                self.at += 1
                if code == 0x2E:  # STOP
                    return self.pop()
                handler = handlers[code]
                if handler is None:
                    raise self.refused(code)
                handler(self)
            self._left -= BEAT
            self.beat()
        raise self.broken(f"it has more than {self.most_instructions // 1_000_000} million instructions")

    # ------------------------------------------------------------ bytes

    def take(self, count: int) -> bytes:
        begin = self.at
        self.skip(count)
        return self.raw[begin : self.at]

    def skip(self, count: int) -> None:
        if self.at + count > len(self.raw):
            self.at = len(self.raw)
            raise EOFError
        self.at += count

    def length(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def line(self) -> bytes:
        end = self.raw.find(b"\n", self.at, self.at + 4096)
        if end < 0 and self.at + 4096 > len(self.raw):
            self.at = len(self.raw)
            raise EOFError
        if end < 0:
            raise self.broken("a line has no end")
        piece = self.raw[self.at : end]
        self.at = end + 1
        return piece

    # ------------------------------------------------------------ stack

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def made(self, value: Any) -> None:
        self._containers -= 1
        if self._containers < 0:
            raise self.Broken(f"it has more than {MOST_CONTAINERS // 1_000_000} million lists and dictionaries")
        self.stack.append(value)

    def pop(self) -> Any:
        value = self.top()
        del self.stack[-1]
        return value

    def pop_any(self) -> None:
        if self.stack.pop() is MARK:
            self.marks -= 1

    def top(self) -> Any:
        value = self.stack[-1]
        if value is MARK:
            raise self.broken("a mark in the place of a value")
        return value

    def mark(self) -> None:
        self.marks += 1
        if self.marks > MOST_DEPTH:
            raise self.Broken(f"its values are nested more than {MOST_DEPTH} deep")
        self.stack.append(MARK)

    def items(self) -> list[Any]:
        """What was pushed since the last mark, and the mark with it."""
        stack = self.stack
        index = len(stack) - 1
        while index >= 0 and stack[index] is not MARK:
            index -= 1
        if index < 0:
            raise self.broken("a mark is missing")
        above = stack[index + 1 :]
        del stack[index:]
        self.marks -= 1
        return above

    def put(self, index: int) -> None:
        if len(self.memo) >= MOST_MEMO:
            raise self.broken("it recalls more values than it can have")
        self.memo[index] = self.top()

    def get(self, index: int) -> None:
        self.stack.append(self.memo[index])

    # ------------------------------------------------------------ values

    def text(self, size: int, encoding: str = "utf-8", errors: str = "surrogatepass") -> None:
        count = self.length(size)
        if count > LONGEST_TEXT:
            self.skip(count)
            self.stack.append(Long(count))
        else:
            self.stack.append(self.take(count).decode(encoding, errors))

    def number(self, size: int, signed: bool = False) -> None:
        self.stack.append(int.from_bytes(self.take(size), "little", signed=signed))

    def long(self, size: int) -> None:
        count = self.length(size)
        if count > MOST_NUMBER_BYTES:
            raise self.broken("it holds a number that no checkpoint and no counter has")
        self.number(count, signed=True)

    def decimal(self) -> None:
        text = self.line().decode("ascii").rstrip("L")
        if len(text) > MOST_DIGITS:
            raise self.broken("it holds a number that no checkpoint and no counter has")
        self.stack.append({"00": False, "01": True}[text] if text in ("00", "01") else int(text))

    def index(self) -> int:
        return int(self.line()[:MOST_DIGITS])

    # ------------------------------------------------------------ containers

    def tuple_of(self, count: int) -> None:
        items = self.stack[-count:]
        if len(items) < count or any(item is MARK for item in items):
            raise self.broken("too little for a tuple")
        del self.stack[-count:]
        self.made(tuple(items))

    def values_of(self, target: Any, kind: type) -> Any:
        """The list or dictionary to which entries are added; something else that has one gives its own."""
        if type(target) is not kind:
            raise self.broken(f"an entry without its {'list' if kind is list else 'dictionary'}")
        return target

    def append(self) -> None:
        value = self.pop()
        self.extend([value])

    def extend(self, items: list[Any]) -> None:
        self.values_of(self.top(), list).extend(items)

    def set_item(self) -> None:
        value, key = self.pop(), self.pop()
        self.set_items([key, value])

    def set_items(self, flat: list[Any]) -> None:
        target = self.values_of(self.top(), dict)
        if len(flat) % 2:
            raise self.broken("a key without its value")
        for at in range(0, len(flat), 2):
            target[self.key(flat[at])] = flat[at + 1]

    def dictionary(self) -> None:
        items = self.items()
        self.made({})
        self.set_items(items)

    def key(self, key: Any) -> Any:
        """A dictionary's key."""
        kind = type(key)
        if kind in (str, bool, type(None), bytes) or (kind is int and -SMALL < key < SMALL):
            return key
        if kind in (int, float) or (kind is tuple and len(key) < 64 and all(map(_is_short, key))):
            return Key(repr(key))
        return Key(f"<{kind.__name__} {id(key)}>")


def _is_short(item: Any) -> bool:
    kind = type(item)
    return kind in (int, float, bool, type(None)) or (kind is str and len(item) < LONGEST_KEY)


Handler = Callable[[Any], None]
"""Of a `PickleMachine`."""


def handlers(more: Mapping[int, Handler]) -> list[Handler | None]:
    """By the byte of the instruction: those below and `more`."""
    return [more.get(code) or PLAIN.get(code) for code in range(256)]


PLAIN: dict[int, Handler] = {
    0x80: lambda machine: machine.skip(1),  # PROTO
    0x95: lambda machine: machine.skip(8),  # FRAME
    0x28: PickleMachine.mark,
    0x4E: lambda machine: machine.push(None),
    0x88: lambda machine: machine.push(True),
    0x89: lambda machine: machine.push(False),
    0x7D: lambda machine: machine.made({}),
    0x5D: lambda machine: machine.made([]),
    0x8F: lambda machine: machine.made([]),  # EMPTY_SET
    0x29: lambda machine: machine.push(()),
    0x4B: lambda machine: machine.number(1),
    0x4D: lambda machine: machine.number(2),
    0x4A: lambda machine: machine.number(4, signed=True),
    0x8A: lambda machine: machine.long(1),
    0x8B: lambda machine: machine.long(4),
    0x49: PickleMachine.decimal,  # INT
    0x4C: PickleMachine.decimal,  # LONG
    0x47: lambda machine: machine.push(struct.unpack(">d", machine.take(8))[0]),
    0x46: lambda machine: machine.push(float(machine.line()[:MOST_DIGITS])),
    0x58: lambda machine: machine.text(4),
    0x8C: lambda machine: machine.text(1),
    0x8D: lambda machine: machine.text(8),
    0x56: lambda machine: machine.push(machine.line().decode("raw_unicode_escape", "replace")),  # UNICODE
    0x53: lambda machine: machine.push(machine.line().decode("latin-1").strip("'\"")),  # STRING
    0x55: lambda machine: machine.text(1, "latin-1"),  # SHORT_BINSTRING: a text of Python 2, or bytes
    0x54: lambda machine: machine.text(4, "latin-1"),
    0x43: lambda machine: machine.text(1, "latin-1"),  # SHORT_BINBYTES
    0x42: lambda machine: machine.text(4, "latin-1"),
    0x8E: lambda machine: machine.text(8, "latin-1"),
    0x96: lambda machine: machine.text(8, "latin-1"),  # BYTEARRAY8
    0x71: lambda machine: machine.put(machine.length(1)),
    0x72: lambda machine: machine.put(machine.length(4)),
    0x70: lambda machine: machine.put(machine.index()),
    0x94: lambda machine: machine.put(len(machine.memo)),
    0x68: lambda machine: machine.get(machine.length(1)),
    0x6A: lambda machine: machine.get(machine.length(4)),
    0x67: lambda machine: machine.get(machine.index()),
    0x61: lambda machine: machine.append(),
    0x65: lambda machine: machine.extend(machine.items()),
    0x90: lambda machine: machine.extend(machine.items()),  # ADDITEMS
    0x91: lambda machine: machine.made(machine.items()),  # FROZENSET
    0x73: lambda machine: machine.set_item(),
    0x75: lambda machine: machine.set_items(machine.items()),
    0x64: PickleMachine.dictionary,
    0x6C: lambda machine: machine.made(machine.items()),
    0x74: lambda machine: machine.made(tuple(machine.items())),
    0x85: lambda machine: machine.tuple_of(1),
    0x86: lambda machine: machine.tuple_of(2),
    0x87: lambda machine: machine.tuple_of(3),
    0x30: PickleMachine.pop_any,
    0x31: lambda machine: machine.items() and None,  # POP_MARK
    0x32: lambda machine: machine.push(machine.top()),  # DUP
}
