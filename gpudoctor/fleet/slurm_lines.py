"""Reads what `srun --label` prints: lines that begin with a task's number, the long ones cut into pieces.

srun breaks what a task writes after every 1,024 bytes or so and puts a line end and the label between (22.05.8), so a
message is put together again until it is whole JSON.
"""

import re
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from gpudoctor.marked import MARK

MAXIMUM_TASKS = 65536
LONGEST_LABEL = 7


class Placed(Struct, frozen=True):
    """A task says where it runs."""

    node: str
    step: str


class Ended(Struct, frozen=True):
    """A task's agent has ended."""

    status: int


class TaskFailure(Struct, frozen=True):
    """srun says that tasks have ended badly."""

    tasks: tuple[int, ...]
    reason: str


LABELLED = re.compile(rb" *(\d{1,7}): ?(.*)", re.DOTALL)
PLACED = re.compile(rb"gpudoctor-task ([A-Za-z0-9_.-]{1,255}) (\d{1,10})")
ENDED = re.compile(rb"gpudoctor-ended (\d{1,3})")
FAILURE = re.compile(r"srun: error: (\S+): tasks? ([0-9,\[\]-]+): (.*)")


class Assembly:
    """Puts the pieces of each task's lines together."""

    def __init__(self, maximum_bytes: int) -> None:
        self._maximum = maximum_bytes
        self._open: dict[int, bytearray] = {}

    def feed(self, line: bytes) -> Iterator[tuple[int, Placed | Ended | bytes]]:
        """What a line of srun's output completes: (task, what it says), a message as bytes.

        What is no message (a banner of a login script) is passed over. A message longer than the maximum is given
        as it is, for the reader to refuse.
        """
        found = LABELLED.fullmatch(line.rstrip(b"\n"))
        if found is None:
            return
        task, piece = int(found[1]), found[2]
        pending = self._open.pop(task, None) or bytearray()
        if len(pending) < len(MARK) and not _may_begin(pending + piece):
            pending = bytearray()  # what looked like a message's first bytes was none
        if ended := ENDED.fullmatch(piece):  # perhaps within a message
            yield task, Ended(int(ended[1]))
        elif placed := PLACED.fullmatch(piece):
            yield task, Placed(placed[1].decode(), placed[2].decode())
        elif _may_begin(pending or piece):
            pending += piece
            if len(pending) > self._maximum or (piece.endswith(b"}") and _is_whole(pending)):
                yield task, bytes(pending)
            else:
                self._open[task] = pending


def _may_begin(text: bytes | bytearray) -> bool:
    """Whether a message begins so, as far as it is there."""
    return bool(text) and MARK.startswith(bytes(text[: len(MARK)]))


def _is_whole(message: bytearray) -> bool:
    try:
        msgspec.json.decode(memoryview(message)[len(MARK) :], type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def task_failure(line: str) -> TaskFailure | None:
    """ "srun: error: n2: task 1: Killed" -> the tasks and the reason; None for any other line."""
    found = FAILURE.fullmatch(line)
    if found is None:
        return None
    return TaskFailure(tasks_of(found[2].strip("[]")), f"{found[1]}: {found[3]}")


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
