"""What NCCL's Inspector (plugins/profiler/inspector of NCCL 2.28 and later) has written of a rank: for how long the GPU
was in each collective. Found among the files that the rank has open, `HOST-pidN.log`; parsed in a child.

It writes a line of JSON for each collective that has ended: communicator, function, that function's number there, the
time of its kernel, and when the line was written. Numbers count by function, from the communicator's first on, so they
are the same on all its ranks, and the lines of a rank stand in the order of their ends.
"""

import os
from collections.abc import Iterator, Sequence
from itertools import groupby

import msgspec
from msgspec import Struct

from gpudoctor.lazy import lazy_re
from gpudoctor.read import apart
from gpudoctor.read.job import inside
from gpudoctor.read.job.recorder_times import LATEST, LONGEST_NAME, MOST_GROUPS, TimesAnswer
from gpudoctor.read.system import System
from gpudoctor.snapshot.pace import INSPECTED, CollectiveTimes

LOG = lazy_re(r"/[^/]*-pid[0-9]+\.log")
SUMS = lazy_re(r"/nccl_inspector[^/]*\.prom")
MOST_DESCRIPTORS = 4096
MOST_BYTES = 4 * 1024 * 1024
"""Of its end: some ten thousand lines."""
AT_ONCE_US = 200
"""Lines that follow each other so closely were written at once, when several collectives had ended."""
FUNCTIONS = ("AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce", "All2All", "AllGatherV")
"""Its words, from whose place and number a sequence is made. Sends and receives have numbers of another kind."""
WRITTEN = 0.9
"""Of the collectives must be there, where one that ends takes the place of one that was not written yet."""
OF_KERNELS = ("kernel_gpu", "kernel_cpu")
"""Of its words for what a time was taken from, those that tell it of the kernel; not that of the call."""


class InspectedHeader(Struct):
    id: str
    rank: int = 0
    comm_name: str = ""
    """Since NCCL 2.30, which keeps all that have ended until they are written; before only the last one."""


class InspectedMetadata(Struct):
    dump_timestamp_us: int


class InspectedKernel(Struct):
    kernel_stop_ts: int = 0


class InspectedTrace(Struct):
    kernel_events: list[InspectedKernel] = []


class InspectedCollective(Struct):
    coll: str
    coll_sn: int
    coll_msg_size_bytes: int = 0
    coll_exec_time_us: int = 0
    coll_timing_source: str = ""
    event_trace_ts: InspectedTrace | None = None
    """With NCCL_INSPECTOR_DUMP_VERBOSE=1."""


class InspectedLine(Struct):
    header: InspectedHeader
    metadata: InspectedMetadata
    coll_perf: InspectedCollective | None = None
    p2p_perf: dict[str, object] | None = None


class EndedCollective(Struct, frozen=True):
    """One collective of one communicator."""

    sequence: int
    name: str
    ran_us: int
    end_us: int


def log_of(system: System, pid: int) -> str:
    """The path by which a process has the Inspector's lines open; "" where it has not. Raises `OSError` where it writes
    something that tells no single collective."""
    folder = f"/proc/{pid}/fd"
    for number in system.names_or_none(folder)[:MOST_DESCRIPTORS]:
        target = system.link_or_empty(f"{folder}/{number}")
        if LOG.search(target) and _speaks(pid, target):
            return target
        if SUMS.search(target):
            raise OSError("NCCL_INSPECTOR_PROM_DUMP=1 writes sums of each GPU, and no single collective")
    return ""


def _speaks(pid: int, path: str) -> bool:
    try:
        with inside.regular(pid, path) as file:
            return os.pread(file, 16, 0).startswith(b'{"header":{"id":')
    except OSError:
        return False


def end_of(pid: int, path: str) -> bytes:
    """The last lines, whole ones. Raises `OSError`."""
    with inside.regular(pid, path) as file:
        begin = max(0, os.fstat(file).st_size - MOST_BYTES)
        os.lseek(file, begin, os.SEEK_SET)
        raw = apart.taken(file, MOST_BYTES)
    return raw[raw.find(b"\n") + 1 :] if begin else raw


def times_of(raw: bytes) -> TimesAnswer:
    """The collectives of every communicator. What is no line of it, as the last may be, is left out."""
    by_communicator: dict[str, list[EndedCollective]] = {}
    keeps_one: set[str] = set()
    ranks: dict[str, int] = {}
    pipelines: dict[str, None] = {}
    for end_us, line in _ended(_lines(raw)):
        key = line.header.id[:LONGEST_NAME] + INSPECTED
        if line.p2p_perf is not None and len(pipelines) < MOST_GROUPS:
            pipelines[key] = None
        seen = line.coll_perf
        if seen is None or seen.coll not in FUNCTIONS or not 0 <= seen.coll_sn < LATEST // len(FUNCTIONS):
            continue
        if (key not in by_communicator and len(by_communicator) >= MOST_GROUPS) or ranks.setdefault(
            key, line.header.rank
        ) != line.header.rank:  # several ranks of one communicator in one process
            continue
        if not line.header.comm_name:
            keeps_one.add(key)
        told = seen.coll_timing_source in OF_KERNELS and 0 < seen.coll_exec_time_us < 10**12
        by_communicator.setdefault(key, []).append(
            EndedCollective(
                seen.coll_sn * len(FUNCTIONS) + FUNCTIONS.index(seen.coll),
                f"{seen.coll} of {seen.coll_msg_size_bytes} bytes",
                seen.coll_exec_time_us if told else 0,
                end_us,
            )
        )
    whole = {key: ended for key, ended in by_communicator.items() if key not in keeps_one or _written(ended) >= WRITTEN}
    lost = [f"{key}: {_written(ended):.0%}" for key, ended in by_communicator.items() if key not in whole]
    return TimesAnswer("nccl", [_told(key, ended) for key, ended in whole.items()], [*pipelines], ", ".join(lost[:4]))


def _written(ended: Sequence[EndedCollective]) -> float:
    """Of the collectives that have ended from the first to the last one that was written, by their numbers."""
    spans: dict[int, list[int]] = {}
    for one in ended:
        spans.setdefault(one.sequence % len(FUNCTIONS), []).append(one.sequence // len(FUNCTIONS))
    return len(ended) / sum(max(own) - min(own) + 1 for own in spans.values())


def _lines(raw: bytes) -> Iterator[InspectedLine]:
    decoder = msgspec.json.Decoder(InspectedLine)
    for text in raw.split(b"\n"):
        try:
            line = decoder.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        if 0 < line.metadata.dump_timestamp_us < LATEST // 1000:
            yield line


def _ended(lines: Iterator[InspectedLine]) -> Iterator[tuple[int, InspectedLine]]:
    """When each ended, in microseconds: as it says itself, or spread evenly over the time since lines were written
    before. Those written at once at the beginning are left out, for since when is not known."""
    before = last = 0
    number = 0

    def batch_of(line: InspectedLine) -> int:
        nonlocal last, number
        number += line.metadata.dump_timestamp_us - last > AT_ONCE_US
        last = line.metadata.dump_timestamp_us
        return number

    for _, same in groupby(lines, batch_of):
        batch = list(same)
        written = batch[-1].metadata.dump_timestamp_us
        for place, line in enumerate(batch, start=1):
            trace = line.coll_perf.event_trace_ts if line.coll_perf is not None else None
            stopped = max((kernel.kernel_stop_ts for kernel in trace.kernel_events), default=0) if trace else 0
            if 0 < stopped <= written:
                yield stopped, line
            elif before or len(batch) == 1:
                yield written - (written - before) * (len(batch) - place) // len(batch) if before else written, line
        before = written


def _told(key: str, ended: Sequence[EndedCollective]) -> CollectiveTimes:
    by_sequence = {one.sequence: one for one in ended}
    names: dict[str, int] = {}
    return CollectiveTimes(
        group=key,
        sequences=tuple(by_sequence),
        created_ns=tuple(one.end_us * 1000 for one in by_sequence.values()),
        kinds=tuple(names.setdefault(one.name, len(names)) for one in by_sequence.values()),
        names=tuple(names),
        ran_ms=tuple(one.ran_us / 1000 for one in by_sequence.values()),
    )


def answer(request: bytes) -> bytes:
    return msgspec.json.encode(times_of(request))


main = apart.serving(answer)
