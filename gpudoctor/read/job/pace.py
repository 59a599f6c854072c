"""What an agent does for `gpudoctor slow`: asks armed ranks when they issued collectives, and looks once a second.

Nothing is stopped. A rank that is not armed has no recorder that could be asked: that is said, and its dump is not read
(a pickle, and older than the question).
"""

import random
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
from msgspec import structs

from gpudoctor import active
from gpudoctor.knowledge.places import main_of, main_thread
from gpudoctor.read.apart import Apart, NotAnswered
from gpudoctor.read.job import armed, file_waits, files, gpus, granted, inspector, sampling
from gpudoctor.read.job.layers import Layers
from gpudoctor.read.job.links import LinksOfRanks
from gpudoctor.read.job.recorder_times import TimesAnswer
from gpudoctor.read.job.tasks import each
from gpudoctor.read.job.wanted import Wanted
from gpudoctor.read.process import fields_of
from gpudoctor.read.system import System
from gpudoctor.snapshot.evidence import GpuUse, Sample, Thread, Unread
from gpudoctor.snapshot.pace import CpuQuota, MemoryPeak, NodePace, ProcessPace, RankTimes, StackSeen

BETWEEN_SECONDS = 1.0
"""From sample to sample at least: at most one a second."""
MORE_SECONDS = 0.25
"""At random on top of it: steps that last a part of a second must not meet every sample in the same place."""
STACK_SECONDS = 0.8
ANSWER_SECONDS = 5.0
"""For one rank's recorder: 20 ms, and more on a node whose processors are all taken."""
MOST_SAMPLED = 64
MOST_ASKED = 24
"""Of these are asked several times a second whether they wait for files."""
MOST_FRAMES = 48
MOST_STACKS = 64
"""Different ones of a process; of others only the count is lost."""
NOT_ARMED = "it is not armed: start the job with `gpudoctor run`, or call gpudoctor.arm() in the script"
NO_SERVER = "it is armed, and its torch has no worker server that tells of its flight recorder (2.5 on has)"
TOO_SELDOM = (
    "before NCCL 2.30 it writes the last collective only, and does so too seldom: "
    "NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS=500 writes nearly all"
)
EMPTY = (
    "its flight recorder holds nothing: TORCH_FR_BUFFER_SIZE (TORCH_NCCL_TRACE_BUFFER_SIZE before 2.8) is 0, "
    "or the rank has begun no collective"
)


def begin(order: Wanted, node: int) -> Callable[[], NodePace]:
    """Begin to look at the processes of an order, once a second for `order.seconds`; then the recorders are asked of
    its ranks. To be called in the agent's main thread."""
    return _Look(order, node).finish


class _Look:
    def __init__(self, order: Wanted, node: int) -> None:
        self.order = order
        self.system = System(patience=max(1.0, order.timeout - 1.0))
        self.started = dict(order.pids.get(str(node), ())[:MOST_SAMPLED])
        ranks = order.ranks.get(str(node), {})
        self.ranks = {int(pid): rank for pid, rank in ranks.items() if pid.isdecimal()}
        self.layers = Layers(self.system, order, node)
        self.times = Apart("gpudoctor.read.job.recorder_times", "flight recorders")
        self.inspected = Apart("gpudoctor.read.job.inspector", "what NCCL's Inspector wrote")
        self.links = LinksOfRanks(self.ranks)
        self.unread: list[Unread] = []
        self.gpu_child = gpus.begin(ANSWER_SECONDS)

    def finish(self) -> NodePace:
        """In a thread of its own."""
        try:
            processes = self._processes() if self.started else ()
            paces, reasons = each(self.ranks, self._times, time.monotonic() + max(ANSWER_SECONDS, self.order.timeout))
            self.unread += [
                Unread(f"flight recorder of rank {self.ranks[pid]}", why, pid) for pid, why in reasons.items()
            ]
            return NodePace(
                hostname=socket.gethostname(),
                ranks=tuple(paces[pid] for pid in self.ranks if pid in paces),
                processes=processes,
                memory=tuple(self._memory()),
                gpus=self._gpus(),
                links=self.links.told(),
                unread=tuple(self.unread[:256]),
            )
        finally:
            self.layers.end()
            self.times.end()
            self.inspected.end()

    def _times(self, pid: int) -> RankTimes:
        """Raises `OSError` with the reason where it cannot be told."""
        asked_at, timed = time.time(), self._of_inspector(pid)
        try:
            answer = self._recorded(pid)
        except OSError:
            if not timed.groups:
                raise
            answer = TimesAnswer(timed.backend)
        return RankTimes(
            rank=self.ranks[pid],
            pid=pid,
            backend=answer.backend,
            groups=(*answer.groups, *timed.groups),
            pipelines=(*answer.pipelines, *timed.pipelines),
            asked_at=asked_at,
        )

    def _recorded(self, pid: int) -> TimesAnswer:
        """Raises `OSError`, as above."""
        how = self.layers.armed(pid)
        if how is None:
            raise OSError(NOT_ARMED)
        raw = armed.recorder_json(pid, how, ANSWER_SECONDS)
        if raw is None:
            raise OSError(NO_SERVER if not how.socket else f"no answer within {ANSWER_SECONDS:.0f} s")
        answer = _asked(self.times, raw)
        if not answer.groups:
            raise OSError(EMPTY)
        return answer

    def _of_inspector(self, pid: int) -> TimesAnswer:
        """Of NCCL's Inspector, where the rank has it; nothing where it has not, or that cannot be read."""
        try:
            path = inspector.log_of(self.system, pid)
            answer = _asked(self.inspected, inspector.end_of(pid, path)) if path else TimesAnswer()
            if answer.lost:
                raise OSError(f"{TOO_SELDOM} ({answer.lost})")
            return answer
        except OSError as error:
            self.unread.append(Unread(f"NCCL's Inspector of rank {self.ranks[pid]}", str(error), pid))
            return TimesAnswer()

    def _memory(self) -> Iterator[MemoryPeak]:
        for pid in self.ranks:
            peak = files.peak_bytes(self.system, pid)
            if peak is not None:
                yield MemoryPeak(pid=pid, peak_bytes=peak, limit_bytes=granted.memory_limit(self.system, pid))

    def _gpus(self) -> tuple[GpuUse, ...]:
        if self.gpu_child is None:
            return ()
        uses, unread = gpus.assemble(active.gather([self.gpu_child])[gpus.NAME])
        self.unread += unread
        return uses

    # --- once a second

    def _processes(self) -> tuple[ProcessPace, ...]:
        kept = {pid: _Kept(self.system, pid) for pid in self.started}
        end = time.monotonic() + self.order.seconds
        while (begun := time.monotonic()) < end:
            self._sample(kept, begun)
            until = min(end, begun + BETWEEN_SECONDS + random.random() * MORE_SECONDS)
            while (left := until - time.monotonic()) > 0:
                for waits in [one.files for one in kept.values()][:MOST_ASKED]:
                    waits.look()
                time.sleep(min(left, file_waits.BETWEEN_SECONDS))
        for pid, each_kept in kept.items():
            each_kept.end(self._seen(pid))
        return tuple(each_kept.told() for each_kept in kept.values())

    def _sample(self, kept: Mapping[int, "_Kept"], begun: float) -> None:
        stacks = self.layers.stacks(list(kept), STACK_SECONDS)
        for pid, stack in stacks.items():
            if stack.by:
                kept[pid].add(self._seen(pid), stack.threads, begun)
            else:
                kept[pid].reason = stack.reason
        for pid, one in kept.items():
            if not one.count and one.reason:
                what = Unread(f"stack of pid {pid}", one.reason, pid)
                self.unread += [] if any(unread.what == what.what for unread in self.unread) else [what]

    def _seen(self, pid: int) -> Sample | None:
        try:
            return sampling.sample(self.system, pid, self.started[pid], 0.0)
        except OSError:
            return None


class _Kept:
    """Of one process."""

    def __init__(self, system: System, pid: int) -> None:
        self.system, self.pid = system, pid
        self.begun = time.monotonic()
        self.ended = self.begun
        self.quota = granted.throttled(system, pid)
        self.first: Sample | None = None
        self.last: Sample | None = None
        self.stacks: dict[tuple[object, ...], StackSeen] = {}
        self.files = file_waits.FileWaits(system, pid)
        self.reason = ""
        self.count = 0

    def add(self, sample: Sample | None, threads: Sequence[Thread], at: float) -> None:
        python = main_of(threads, self.pid)
        if sample is None or python is None:
            return
        if self.first is None:
            self.first, self.begun = sample, at
        kernel = _main(sample, self.pid) or python
        self.count += 1
        main = structs.replace(
            kernel,
            name=python.name or kernel.name,
            frames=python.frames[:MOST_FRAMES],
            cpu_seconds=None,
            delayed_seconds=None,
            switches=None,
        )
        key = (main.frames, main.waits_in)
        seen = self.stacks.get(key)
        if seen is None and len(self.stacks) >= MOST_STACKS:
            return
        count = seen.count + 1 if seen is not None else 1
        self.stacks[key] = StackSeen(thread=seen.thread if seen is not None else main, count=count)

    def end(self, sample: Sample | None) -> None:
        self.last, self.ended = sample, time.monotonic()

    def told(self) -> ProcessPace:
        first, last = self.first, self.last
        mains = (_main(first, self.pid), _main(last, self.pid))
        return ProcessPace(
            pid=self.pid,
            seconds=round(self.ended - self.begun, 3),
            stacks=tuple(self.stacks.values()),
            main_ran_seconds=_less(mains, "cpu_seconds"),
            main_delayed_seconds=_less(mains, "delayed_seconds"),
            cpu_seconds=_less((first, last), "cpu_seconds"),
            cpus_allowed=self._cpus_allowed(),
            quota=self._quota(),
            file_looks=self.files.looks,
            file_waits=self.files.waits,
            file=self.files.file,
            memory_waits=self.files.for_memory,
            memory=granted.memory(self.system, self.pid) if self.files.for_memory else None,
            lost=last is None,
        )

    def _cpus_allowed(self) -> str:
        try:
            return fields_of(self.pid, self.system).get("Cpus_allowed_list", "")
        except OSError:
            return ""

    def _quota(self) -> CpuQuota | None:
        now = granted.throttled(self.system, self.pid) if self.quota is not None else None
        if self.quota is None or now is None or now.folder != self.quota.folder:
            return None
        return CpuQuota(
            cpus=now.cpus,
            folder=now.folder,
            throttled_seconds=round(now.seconds - self.quota.seconds, 3),
            throttled_periods=now.throttled_periods - self.quota.throttled_periods,
            periods=now.periods - self.quota.periods,
        )


def _main(sample: Sample | None, pid: int) -> Thread | None:
    return main_thread(sample, pid) if sample is not None else None


def _less(ends: Sequence[object], name: str) -> float | None:
    """The last value less the first."""
    first, last = (getattr(end, name, None) for end in ends)
    return round(last - first, 4) if first is not None and last is not None else None


def _asked(reader: Apart, raw: bytes) -> TimesAnswer:
    """Raises `OSError`."""
    try:
        return msgspec.json.decode(reader.ask(raw, ANSWER_SECONDS), type=TimesAnswer)
    except (NotAnswered, msgspec.DecodeError) as error:
        raise OSError(str(error)) from None
