"""What an agent has seen of a job, as JSON that fits into one line of its connection."""

from collections.abc import Callable

import msgspec
from msgspec import structs

from gpudoctor.snapshot.evidence import NodeEvidence, ProcessEvidence, Thread, Unread

MOST_BYTES = 24 * 1024 * 1024
"""Of an answer; the connection ends at 32 MiB a line."""


def encoded(evidence: NodeEvidence, limit: int = MOST_BYTES) -> bytes:
    """As JSON that fits into one line of an agent: without the threads that run no Python where it would not."""
    raw = msgspec.json.encode(evidence)
    for keep, what in ((_with_frames, "that run no Python"), (_only_main, "but the main ones")):
        if len(raw) <= limit:
            break
        unread = (*evidence.unread, Unread("threads", f"those {what} are left out: there are too many to tell"))
        thinned = tuple(keep(process) for process in evidence.processes)
        raw = msgspec.json.encode(structs.replace(evidence, processes=thinned, unread=unread))
    return raw


def _with_frames(process: ProcessEvidence) -> ProcessEvidence:
    return _thinned(process, lambda thread: bool(thread.frames) or thread.id == process.process.pid)


def _only_main(process: ProcessEvidence) -> ProcessEvidence:
    return _thinned(process, lambda thread: thread.id == process.process.pid)


def _thinned(process: ProcessEvidence, keep: Callable[[Thread], bool]) -> ProcessEvidence:
    samples = (
        structs.replace(sample, threads=tuple(thread for thread in sample.threads if keep(thread)))
        for sample in process.samples
    )
    return structs.replace(process, samples=tuple(samples))
