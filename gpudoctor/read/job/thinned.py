"""What an agent has seen of a job, as JSON that fits into one line of its connection."""

from collections.abc import Callable

import msgspec
from msgspec import structs

from gpudoctor.knowledge.places import main_thread
from gpudoctor.snapshot.evidence import NodeEvidence, ProcessEvidence, Sample, Thread, Unread

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
    return _thinned(process, lambda thread: bool(thread.frames))


def _only_main(process: ProcessEvidence) -> ProcessEvidence:
    return _thinned(process, lambda _: False)


def _thinned(process: ProcessEvidence, keep: Callable[[Thread], bool]) -> ProcessEvidence:
    """With the main threads and those to `keep`."""
    pid, samples = process.process.pid, list[Sample]()
    for sample in process.samples:
        main = main_thread(sample, pid)
        left = (thread for thread in sample.threads if thread.id == pid or thread is main or keep(thread))
        samples.append(structs.replace(sample, threads=tuple(left)))
    return structs.replace(process, samples=tuple(samples))
