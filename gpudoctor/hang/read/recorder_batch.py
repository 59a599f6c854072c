"""Many dumps at once, by one child process a processor: one dump takes 20 ms, and a large job has a thousand."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence

import msgspec
from msgspec import Struct

from gpudoctor import active
from gpudoctor.hang.evidence import Recorder, Unread
from gpudoctor.marked import MARK

WORTH_A_CHILD = 32
"""Dumps from which a child's start (a third of a second) is won back."""
MOST_OF_A_CHILD = 256
"""Dumps: some 30 kB of answer each, and paths that fit on a command line."""
MOST_CHILDREN = 16
SECONDS_OF_A_DUMP = 3.0
"""A dump that torch has not written may take two."""
Read = Callable[[str, int], Recorder | Unread]
Dump = tuple[str, int]
"""Path and rank."""


class _Answer(Struct, omit_defaults=True):
    rank: int
    recorder: Recorder | None = None
    unread: Unread | None = None


def each(dumps: Sequence[Dump], read: Read) -> Iterator[Recorder | Unread]:
    """What `read` brings of each dump, in their order. What a child owes is read here."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    children = min(MOST_CHILDREN, processors, len(dumps) // WORTH_A_CHILD)
    answers: dict[int, Recorder | Unread] = {}
    if children > 1:
        batches = [dumps[at : at + MOST_OF_A_CHILD] for at in range(0, len(dumps), MOST_OF_A_CHILD)]
        if len(batches) < children:
            batches = [dumps[number::children] for number in range(children)]
        for at in range(0, len(batches), children):
            answers.update(_by_children(batches[at : at + children]))
    for path, rank in dumps:
        yield answers.pop(rank) if rank in answers else read(path, rank)


def _by_children(batches: Sequence[Sequence[Dump]]) -> Iterator[tuple[int, Recorder | Unread]]:
    started = []
    for number, batch in enumerate(batches):
        words = [f"{rank}:{path}" for path, rank in batch]
        command = active.own_module("gpudoctor.hang.read.recorder_batch", *words)
        try:
            started.append(active.start(f"dumps {number}", command, timeout=SECONDS_OF_A_DUMP * len(batch)))
        except OSError:
            continue  # read by ourselves
    for reply in active.gather(started).values():
        for line in reply.output.split(b"\n"):
            if not line.startswith(MARK):
                continue
            try:
                answer = msgspec.json.decode(line[len(MARK) :], type=_Answer)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue  # cut short
            found = answer.recorder or answer.unread
            if found is not None:
                yield answer.rank, found


def main(arguments: Sequence[str]) -> None:
    """In the child: "RANK:PATH" each."""
    from gpudoctor.hang.read.recorder_files import of_file

    for word in arguments:
        rank, _, path = word.partition(":")
        found = of_file(path, int(rank))
        answer = _Answer(int(rank), found) if isinstance(found, Recorder) else _Answer(int(rank), unread=found)
        sys.stdout.buffer.write(MARK + msgspec.json.encode(answer) + b"\n")
    sys.stdout.buffer.flush()
