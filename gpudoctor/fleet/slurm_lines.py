"""Reads what `srun --label` prints: lines that begin with a task's number, the long ones cut into pieces.

srun breaks what a task writes after every 1,024 bytes or so and puts a line end and the label between (22.05.8), so a
message is put together again until its first object is closed.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from gpudoctor.lazy import lazy_re
from gpudoctor.marked import MARK

MAXIMUM_TASKS = 65536
LONGEST_LABEL = 7


class Placed(Struct, frozen=True):
    """A task says where it runs."""

    node: str
    step: str


class StepEnded(Struct, frozen=True):
    """A task's agent has ended."""

    status: int


class TaskFailure(Struct, frozen=True):
    """srun says that tasks have ended badly."""

    tasks: tuple[int, ...]
    reason: str


LABELLED = lazy_re(rb" *(\d{1,7}): ?(.*)", re.DOTALL)
PLACED = lazy_re(rb"gpudoctor-task ([A-Za-z0-9_.-]{1,255}) (\d{1,10})")
ENDED = lazy_re(rb"gpudoctor-ended (\d{1,3})")
FAILURE = lazy_re(r"srun: error: (\S+): tasks? ([0-9,\[\]-]+): (.*)")


_TEXT = lazy_re(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_END_OF_TEXT = lazy_re(rb'[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


class _Pending:
    """A message as far as it is there, and how deep in its objects and texts that ends: each byte is looked at once."""

    def __init__(self) -> None:
        self.text = bytearray()
        self._depth = 0
        self._in_text = False
        self._is_escaped = False
        """Within a text, the next byte stands for itself."""

    def add(self, piece: bytes) -> None:
        self.text += piece
        if self._in_text:
            begin = 1 if self._is_escaped else 0
            end = _END_OF_TEXT.match(piece, begin)
            if end is None:
                self._stay(piece[begin:])
                return
            piece = piece[end.end() :]
        outside, quote, text = _TEXT.sub(b"", piece).partition(b'"')
        self._depth += outside.count(b"{") - outside.count(b"}")
        self._in_text = self._is_escaped = False
        if quote:
            self._stay(text)

    def _stay(self, text: bytes) -> None:
        """The piece ends within a text, of which this is the end."""
        self._in_text = True
        self._is_escaped = bool((len(text) - len(text.rstrip(b"\\"))) % 2)

    @property
    def is_whole(self) -> bool:
        return self.text.endswith(b"}") and not self._in_text and self._depth <= 0


class Assembly:
    """Puts the pieces of each task's lines together."""

    def __init__(self, maximum_bytes: int) -> None:
        self._maximum = maximum_bytes
        self._open: dict[int, _Pending] = {}

    def feed(self, line: bytes) -> Iterator[tuple[int, Placed | StepEnded | bytes]]:
        """What a line of srun's output completes: (task, what it says), a message as bytes.

        What is no message (a banner of a login script) is passed over. A message longer than the maximum is given
        as it is, for the reader to refuse.
        """
        match = LABELLED.fullmatch(line.rstrip(b"\n"))
        if match is None:
            return
        task, piece = int(match[1]), match[2]
        pending = self._open.pop(task, None) or _Pending()
        if len(pending.text) < len(MARK) and not _may_begin(pending.text + piece):
            pending = _Pending()  # what looked like a message's first bytes was none
        if ended := ENDED.fullmatch(piece):  # perhaps within a message
            yield task, StepEnded(int(ended[1]))
        elif placed := PLACED.fullmatch(piece):
            yield task, Placed(placed[1].decode(), placed[2].decode())
        elif _may_begin(pending.text or piece):
            pending.add(piece)
            if len(pending.text) > self._maximum or pending.is_whole:
                yield task, bytes(pending.text)
            else:
                self._open[task] = pending


def _may_begin(text: bytes | bytearray) -> bool:
    """Whether a message begins so, as far as it is there."""
    return bool(text) and MARK.startswith(bytes(text[: len(MARK)]))


def task_failure(line: str) -> TaskFailure | None:
    """ "srun: error: n2: task 1: Killed" -> the tasks and the reason; None for any other line."""
    match = FAILURE.fullmatch(line)
    if match is None:
        return None
    return TaskFailure(tasks_of(match[2].strip("[]")), f"{match[1]}: {match[3]}")


def tasks_of(folded: str) -> tuple[int, ...]:
    """ "0,2-4" -> (0, 2, 3, 4); () when it is no such list."""
    tasks: list[int] = []
    for part in folded.split(","):
        low, dash, high = part.partition("-")
        if not low.isdecimal() or (dash and not high.isdecimal()):
            return ()
        first, last = int(low), int(high or low)
        if last - first > MAXIMUM_TASKS:
            return ()
        tasks += range(first, last + 1)
    return tuple(tasks)
