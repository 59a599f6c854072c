"""The bytes of a pickle, its stack and its memo, each with its limit."""

from typing import Any

from gpudoctor.checkpoint.unreadable import BadFile
from gpudoctor.checkpoint.values import Long, Name, Object

MOST_CONTAINERS = 4_000_000
MOST_MEMO = 16_000_000
MOST_DEPTH = 10_000
"""Marks that are open at one time; a state dict has four."""
SMALL = 1 << 31
"""Numbers below are keys as they are: there are too few of them to make a dictionary slow."""
LONGEST_KEY = 1000
MOST_PLAIN = 100_000
"""Numbers and texts kept of one list."""
PLAIN_TYPES = (str, int, float, bool, type(None), Long)

_MARK = object()

MARK = object()


class PickleStack:
    """What the instructions of a pickle work on. Raises `BadFile`, and `EOFError` at the end of the bytes."""

    def __init__(self, raw: bytes, at: int) -> None:
        self.raw = raw
        self.at = at
        self._containers = MOST_CONTAINERS
        self.clear()

    def clear(self) -> None:
        """Before another pickle."""
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.marks = 0

    @property
    def is_cut(self) -> bool:
        """It ran into the end of what was given."""
        return self.at >= len(self.raw)

    # ------------------------------------------------------------ bytes

    def take(self, count: int) -> bytes:
        piece = self.raw[self.at : self.at + count]
        if len(piece) < count:
            self.at = len(self.raw)
            raise EOFError
        self.at += count
        return piece

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
            raise BadFile("its list of tensors is damaged: a line has no end")
        piece = self.raw[self.at : end]
        self.at = end + 1
        return piece

    # ------------------------------------------------------------ stack

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def made(self, value: Any) -> None:
        self._containers -= 1
        if self._containers < 0:
            raise BadFile(f"it has more than {MOST_CONTAINERS // 1_000_000} million lists and dictionaries")
        self.stack.append(value)

    def pop(self) -> Any:
        value = self.stack.pop()
        if value is MARK:
            raise BadFile("its list of tensors is damaged: a mark in the place of a value")
        return value

    def top(self) -> Any:
        value = self.stack[-1]
        if value is MARK:
            raise BadFile("its list of tensors is damaged: a mark in the place of a value")
        return value

    def mark(self) -> None:
        self.marks += 1
        if self.marks > MOST_DEPTH:
            raise BadFile(f"its values are nested more than {MOST_DEPTH} deep")
        self.stack.append(MARK)

    def items(self) -> list[Any]:
        """What was pushed since the last mark, and the mark with it."""
        stack = self.stack
        index = len(stack) - 1
        while index >= 0 and stack[index] is not MARK:
            index -= 1
        if index < 0:
            raise BadFile("its list of tensors is damaged: a mark is missing")
        found = stack[index + 1 :]
        del stack[index:]
        self.marks -= 1
        return found

    def put(self, index: int) -> None:
        if len(self.memo) >= MOST_MEMO:
            raise BadFile("its list of tensors recalls more values than a checkpoint has")
        self.memo[index] = self.top()

    def get(self, index: int) -> None:
        self.stack.append(self.memo[index])

    # ------------------------------------------------------------ containers

    def tuple_of(self, count: int) -> None:
        items = self.stack[-count:]
        if len(items) < count or any(item is MARK for item in items):
            raise BadFile("its list of tensors is damaged: too little for a tuple")
        del self.stack[-count:]
        self.made(tuple(items))

    def extend(self, items: list[Any]) -> None:
        target = self.top()
        if isinstance(target, Object):
            target = target.values
        if type(target) is not list:
            raise BadFile("its list of tensors is damaged: an entry without its list")
        if len(target) + len(items) > MOST_PLAIN:
            items = [item for item in items if type(item) not in PLAIN_TYPES]
        target.extend(items)

    def set_items(self, flat: list[Any]) -> None:
        target = self.top()
        if isinstance(target, Object):
            target = target.items
        if type(target) is not dict or len(flat) % 2:
            raise BadFile("its list of tensors is damaged: an entry without its dictionary")
        for at in range(0, len(flat), 2):
            target[_key(flat[at])] = flat[at + 1]


class Key(str):
    """A key that is no text and no small number, as text: Python's own hashes of numbers and tuples can be foretold, so
    that somebody can choose thousands that collide; those of texts have a salt."""

    def __repr__(self) -> str:
        return str(self)


def _key(key: Any) -> Any:
    """A dictionary's key."""
    kind = type(key)
    if kind in (str, bool, type(None), bytes) or (kind is int and -SMALL < key < SMALL):
        return key
    if isinstance(key, Name):
        return key.full
    if kind in (int, float):
        return Key(repr(key))
    if kind is tuple and len(key) < 64 and all(_is_short(item) for item in key):
        return Key(repr(key))
    return Key(f"<{kind.__name__} {id(key)}>")


def _is_short(item: Any) -> bool:
    kind = type(item)
    return kind in (int, float, bool, type(None)) or (kind is str and len(item) < LONGEST_KEY)
