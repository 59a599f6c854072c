"""What an agent does for `gpudoctor hang`: finds the processes of distributed jobs, and reads them twice.

Every reader has a deadline: a process that waits in the kernel, a dead mount or a silent name server costs its own
answer, which is then said in `unread`, and never that of the others.
"""

import contextlib
import socket
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from msgspec import structs

from gpudoctor import active, crowded
from gpudoctor.knowledge.places import in_collective, main_thread
from gpudoctor.launcher import command_lines as commands
from gpudoctor.read import cgroup, kernel_log
from gpudoctor.read.job import describer, files, gpus, granted, kernel, processes, reach, sampling
from gpudoctor.read.job.layers import Layers, RankWithRas
from gpudoctor.read.job.own import own_pids
from gpudoctor.read.job.sources import Sources
from gpudoctor.read.job.stacks import Stacks
from gpudoctor.read.job.tasks import Task, each
from gpudoctor.read.job.wanted import Wanted
from gpudoctor.read.process import in_first_pid_namespace, look
from gpudoctor.read.ranks import parse_environment
from gpudoctor.read.sockets import Tables
from gpudoctor.read.system import System
from gpudoctor.snapshot.evidence import (
    FrameVariables,
    GpuUse,
    KernelEvent,
    NodeEvidence,
    NodeProcesses,
    Process,
    ProcessEvidence,
    Recorder,
    Sample,
    Socket,
    SourceContext,
    Thread,
    Unread,
)
from gpudoctor.snapshot.holds import CgroupMemory
from gpudoctor.snapshot.ras import Ras

T = TypeVar("T")

MOST_UNREAD = 256
MOST_PROCESSES = 4096
LEFT_FOR_THE_END = 0.4
"""Seconds of an order's time that are kept for putting the answer together."""
SHORTEST_DUMP = 0.8
FOR_THEIR_SOURCES = 1.0
"""Seconds for the lines that late dumps name."""
SAMPLE_SECONDS = 1.5
"""How long looking at the threads of all processes may take."""
LATE = "no answer in time"
SOCKETS_OF = "sockets of pid {pid}"


def find(alone: int = 0) -> NodeProcesses:
    """The processes of this node that belong to distributed jobs, or may; `alone` as in `processes.find`. In a thread
    of its own; within a second."""
    return processes.find(System(), hostname=socket.gethostname(), now=time.time(), alone=alone)


def begin(order: Wanted, node: int) -> Callable[[], NodeEvidence]:
    """Begin to read the processes of an order; the result waits for them. To be called in the agent's main thread.

    Whatever cannot be read in `order.timeout` seconds, more where we get no processor, is left out and said in
    `unread`.
    """
    return _SecondLook(order, node).finish


def _mains(samples: Mapping[int, Sample]) -> dict[int, Thread]:
    """The main threads that run Python, each with the frames of another one of its process that is in a collective."""
    found: dict[int, Thread] = {}
    for pid, sample in samples.items():
        main = main_thread(sample, pid)
        if main is not None and main.frames:
            other = next((one for one in sample.threads if one.id not in (pid, main.id) and in_collective(one)), None)
            found[pid] = main if other is None else structs.replace(main, frames=(*main.frames, *other.frames))
    return found


def is_nccl(library: str) -> bool:
    return library.startswith("libnccl.so")


class _Details(NamedTuple):
    """What is read once of a process."""

    process: Process | None
    """None: it is gone."""
    environment: Mapping[str, str]
    """All of it: it does not leave this node."""
    libraries: dict[str, str]
    versions: dict[str, str]
    opened: files.Open
    resident_bytes: int | None
    limits: dict[str, str]
    oom_kills: int | None
    memory: CgroupMemory | None
    frozen: str
    unread: tuple[Unread, ...]


class _SecondLook:
    """One order on its way."""

    def __init__(self, order: Wanted, node: int) -> None:
        self.order = order
        begun = time.monotonic()
        self.slowdown = crowded.slowdown()
        self.deadline = begun + (max(1.5, order.timeout) - LEFT_FOR_THE_END) * self.slowdown
        self.dumps_until = max(self.deadline, begun + order.for_dumps)
        self.sources_until = self.dumps_until - 0.3  # a line that comes later would cost all the others
        self.end = self.dumps_until + (FOR_THEIR_SOURCES if order.for_dumps else 0.0)
        self.wanted = dict(order.pids.get(str(node), ())[:MOST_PROCESSES])
        """pid -> start time."""
        ranks = order.ranks.get(str(node), {})
        self.ranks = {pid: ranks[str(pid)] for pid in self.wanted if str(pid) in ranks}
        self.system = System(patience=max(1.0, order.timeout - 1.0) * self.slowdown)
        self.describer = describer.Describer(self.system)
        self.versions = files.Versions(self.system)
        self.unread: list[Unread] = []
        self.layers = Layers(self.system, order, node)
        self.sources = Sources()
        self.variables: dict[int, tuple[FrameVariables, ...]] = {}
        self.gpu_child = gpus.begin(max(1.0, self.deadline - time.monotonic()))

    def finish(self) -> NodeEvidence:
        """In a thread of its own."""
        try:
            return self._looked()
        finally:
            self.sources.end()
            self.layers.end()
            self.describer.in_kernel.end()

    def _looked(self) -> NodeEvidence:
        kernel_events = Task(self._kernel)
        interfaces = Task(lambda: reach.interfaces(self.system))
        own = socket.gethostname()
        seconds = max(0.5, self.deadline - 0.2 - time.monotonic())
        allowed = reach.may_connect(self.system, self.wanted, named=self.order.connect)
        attempts = reach.Attempts(self.order.addresses, self.order.ports, seconds, own=(own,), allowed=allowed)

        begun = time.monotonic()
        first = self._sample(begun)
        details_task = Task(lambda: each(self.wanted, self._details, self.deadline - 0.3))
        recorders_task = Task(lambda: self._recorders(details_task.result(self.deadline)[0]))
        between = max(0.0, min(self.order.seconds, self.deadline - time.monotonic()))
        budget = max(SHORTEST_DUMP, (self.deadline - time.monotonic() - between) / 2)
        first = self._with_stacks(first, budget, say=False)
        # Most stand at the same lines in the second sample: by then these files have been read.
        Task(lambda: self.sources.of(_mains(first), self.sources_until))
        ras_task = Task(lambda: self._ras(details_task.result(self.deadline)[0], first))
        time.sleep(max(0.0, min(begun + self.order.seconds, self.deadline - SHORTEST_DUMP) - time.monotonic()))
        last = self._sample(begun)
        tables = Tables(self.system)
        sockets_task = Task(lambda: each(self.wanted, lambda pid: self._sockets(tables, pid), self.deadline - 0.2))
        last = self._with_stacks(last, max(0.3, self.deadline - 0.2 - time.monotonic()), say=True)

        details, silent = self._of(details_task, ({}, dict.fromkeys(self.wanted, LATE)), "processes in detail")
        self._say(silent, "environment and files of pid {pid}")
        sockets, refused = self._of(sockets_task, ({}, dict.fromkeys(self.wanted, LATE)), "sockets")
        self._say({pid: reason for pid, reason in refused.items() if self._is_there(details, pid)}, SOCKETS_OF)
        contexts_task = Task(lambda: self._contexts(last, details))
        listeners_task = Task(lambda: self._listeners(tables, last))
        ras = self._of(ras_task, ((), []), "RAS")
        reached, not_reached = attempts.results()
        listeners: tuple[Socket, ...] = self._of(listeners_task, (), "listeners on the job's ports")
        seen_kernel = self._of(kernel_events, (), "kernel log")
        addresses = self._of(interfaces, (), "network interfaces")
        # Last: all else is over while a rank still writes its dump, or a machine under load reads files.
        recorders, armed, refusals = self._of(recorders_task, ({}, set(), []), "flight recorders", self.dumps_until)
        contexts = self._of(contexts_task, {}, "source files", self.dumps_until)
        contexts = self._of(Task(lambda: self._with_recorded(contexts, recorders)), contexts, "source files", self.end)
        self.unread += self.sources.unread
        self.unread += [*refusals, *ras[1], *not_reached]
        for pid in self.wanted:
            if pid in details:
                self.unread += details[pid].unread
        return NodeEvidence(
            hostname=own,
            boot_id=describer.boot_id(self.system),
            network_namespace=describer.namespace(self.system, "self"),
            time=time.time(),
            processes=tuple(
                self._process(
                    pid,
                    details.get(pid),
                    tuple(sample for sample in (first.get(pid), last.get(pid)) if sample is not None),
                    sockets.get(pid, ()),
                    contexts.get(pid, ()),
                    recorders.get(pid),
                    pid in armed,
                )
                for pid in self.wanted
            ),
            own=own_pids(dict.fromkeys((*self.wanted, *(listener.pid for listener in listeners if listener.pid)))),
            listeners=listeners,
            reached=reached,
            interfaces=addresses,
            resolved=dict(attempts.resolved),
            kernel=seen_kernel,
            gpus=self._gpus(),
            ras=ras[0],
            unread=tuple(self.unread[:MOST_UNREAD]),
        )

    # --- samples

    def _sample(self, begun: float) -> dict[int, Sample]:
        def one(pid: int) -> Sample | None:
            return sampling.sample(self.system, pid, self.wanted[pid], time.monotonic() - begun)

        found, reasons = each(self.wanted, one, min(self.deadline, time.monotonic() + SAMPLE_SECONDS * self.slowdown))
        self._say(reasons, "state of pid {pid}")
        return {pid: sample for pid, sample in found.items() if sample is not None}

    def _with_stacks(self, samples: Mapping[int, Sample], seconds: float, *, say: bool) -> dict[int, Sample]:
        """The samples with the stacks of all that run Python; why some have none is said once."""
        wanted = [pid for pid, sample in samples.items() if self._runs_python(pid, sample)]
        try:
            left = min(seconds, self.deadline - time.monotonic())
            dumped = self.layers.stacks(wanted, left, variables=say)
        except Exception as error:  # the rest is worth having without them
            dumped = {pid: Stacks(reason=f"{type(error).__name__}: {error}"[:200]) for pid in wanted}
        found = dict(samples)
        for pid, stack in dumped.items():
            if stack.by:
                found[pid] = sampling.with_stacks(samples[pid], stack.threads, stack.by)
                self.variables[pid] = stack.variables
            elif say and stack.reason:
                self.unread.append(Unread(f"stack of pid {pid}", stack.reason, pid))
        return found

    def _runs_python(self, pid: int, sample: Sample) -> bool:
        if sample.state in "ZX":
            return False
        main = main_thread(sample, pid)
        return pid in self.ranks or (main is not None and commands.PYTHON.search(main.name.lower()) is not None)

    # --- what is read once

    def _details(self, pid: int) -> _Details:
        process, raw, reason = self.describer.again(pid, self.wanted[pid])
        unread = [Unread(f"environment of pid {pid}", reason, pid)] if reason and process is not None else []

        def attempt(what: str, function: Callable[[], T], otherwise: T) -> T:
            try:
                return function()
            except FileNotFoundError:
                return otherwise  # it ended
            except OSError as error:
                if not reason:  # said once
                    unread.append(Unread(f"{what} of pid {pid}", error.strerror or str(error), pid))
                return otherwise

        ended = process is None or process.state in "ZX"
        loaded: dict[str, str] = {}
        opened = files.Open((), ())
        if not ended:
            opened = attempt("open files", lambda: files.open_files(self.system, pid), opened)
            if process is not None and process.state != "D":
                loaded = attempt("libraries", lambda: files.libraries(self.system, pid), loaded)
        return _Details(
            process=process,
            environment=parse_environment(raw),
            libraries=loaded,
            versions=self.versions.of(pid, loaded) if loaded else {},
            opened=opened,
            resident_bytes=files.resident_bytes(self.system, pid),
            limits={} if ended else attempt("limits", lambda: files.limits(self.system, pid), {}),
            oom_kills=cgroup.oom_kills(self.system, pid),
            memory=None if ended else granted.memory(self.system, pid),
            frozen="" if ended else granted.frozen(self.system, pid),
            unread=tuple(unread),
        )

    def _sockets(self, tables: Tables, pid: int) -> tuple[Socket, ...]:
        try:
            return tables.sockets(pid, self._name(pid))
        except FileNotFoundError:
            return ()

    def _name(self, pid: int) -> str:
        found = look(pid, self.system)
        return found.printable if found is not None else ""

    def _listeners(self, tables: Tables, samples: Mapping[int, Sample]) -> tuple[Socket, ...]:
        if not self.order.ports:
            return ()
        pids = [pid for pid, sample in samples.items() if sample.state not in "ZX"]
        names = {pid: self._name(pid) for pid in pids}
        return reach.listeners(self.system, tables, pids, frozenset(self.order.ports), names)

    def _contexts(
        self, samples: Mapping[int, Sample], details: Mapping[int, _Details]
    ) -> dict[int, tuple[SourceContext, ...]]:
        there = {pid: main for pid, main in _mains(samples).items() if self._is_there(details, pid)}
        return self.sources.of(there, self.sources_until)

    def _with_recorded(
        self, contexts: Mapping[int, tuple[SourceContext, ...]], recorders: Mapping[int, Recorder]
    ) -> dict[int, tuple[SourceContext, ...]]:
        found = dict(contexts)
        for pid, recorder in recorders.items():
            own = found.get(pid, ())
            known = {(context.file, context.line) for context in own}
            more = self.sources.recorded(pid, recorder, self.end - 0.1)
            found[pid] = (*own, *(context for context in more if (context.file, context.line) not in known))
        return found

    def _recorders(self, details: Mapping[int, _Details]) -> tuple[dict[int, Recorder], set[int], list[Unread]]:
        ranks = [pid for pid in self.ranks if self._is_there(details, pid)]

        def one(pid: int) -> tuple[Recorder | None, tuple[Unread, ...], bool]:
            recorder, unread = self.layers.recorder(
                pid, self.ranks[pid], details[pid].environment, self.dumps_until - 0.2
            )
            return recorder, unread, self.layers.armed(pid) is not None

        answers, late = each(ranks, one, self.dumps_until - 0.1)
        refusals = [Unread(f"flight recorder of rank {self.ranks[pid]}", why, pid) for pid, why in late.items()]
        for _, unread, _ in answers.values():
            refusals += unread
        recorders = {pid: found for pid, (found, _, _) in answers.items() if found is not None}
        return recorders, {pid for pid, (_, _, is_armed) in answers.items() if is_armed}, refusals

    def _kernel(self) -> tuple[KernelEvent, ...]:
        lines = kernel_log.read_lines(self.system)
        if not lines.is_read:
            raise OSError(lines.reason)
        told = kernel.events(lines.value, time.monotonic())
        if in_first_pid_namespace(self.system):
            return told
        return tuple(structs.replace(event, pid=0) for event in told)  # in a container its numbers are others'

    def _gpus(self) -> tuple[GpuUse, ...]:
        if self.gpu_child is None:
            return ()
        uses, unread = gpus.assemble(active.gather([self.gpu_child])[gpus.NAME])
        self.unread += unread
        return uses

    # --- together

    def _process(
        self,
        pid: int,
        details: _Details | None,
        samples: tuple[Sample, ...],
        sockets: tuple[Socket, ...],
        sources: tuple[SourceContext, ...],
        recorder: Recorder | None,
        armed: bool,
    ) -> ProcessEvidence:
        if details is None:  # nothing came of reading it, which does not say that it is gone
            state = samples[-1].state if samples else ""
            unread = Process(pid=pid, parent=0, started=self.wanted[pid], state=state)
            return ProcessEvidence(process=unread, samples=samples, sockets=sockets, sources=sources)
        gone = Process(pid=pid, parent=0, started=self.wanted[pid], state="X")
        return ProcessEvidence(
            process=self._as_ended(details.process, samples) if details.process else gone,
            samples=samples,
            sockets=sockets,
            sources=sources,
            recorder=recorder,
            libraries=details.libraries,
            versions=details.versions,
            open_files=details.opened.files,
            locked_files=details.opened.locked,
            awaited_lock=details.opened.awaited,
            output_files=details.opened.output,
            resident_bytes=details.resident_bytes,
            limits=details.limits,
            oom_kills=details.oom_kills,
            memory=details.memory,
            frozen=details.frozen,
            armed=armed,
            variables=self.variables.get(pid, ()),
        )

    def _as_ended(self, process: Process, samples: tuple[Sample, ...]) -> Process:
        """With the status of one that has ended between being read and being sampled."""
        if samples and samples[-1].state == "Z" and process.state != "Z":
            with contextlib.suppress(OSError):
                now = look(process.pid, self.system)
                if now is not None and (now.start_ticks, now.state) == (process.started, "Z"):
                    return structs.replace(process, state="Z", exit_code=now.exit_code)
        return process

    @staticmethod
    def _is_there(details: Mapping[int, _Details], pid: int) -> bool:
        return pid in details and (process := details[pid].process) is not None and process.state not in ("Z", "X")

    def _ras(
        self, details: Mapping[int, _Details], samples: Mapping[int, Sample]
    ) -> tuple[tuple[Ras, ...], list[Unread]]:
        ranks = [
            RankWithRas(
                pid=pid,
                environment=details[pid].environment,
                nccl=details[pid].versions.get("nccl", "?" if any(map(is_nccl, details[pid].libraries)) else ""),
                network_namespace=process.network_namespace,
            )
            for pid in self.ranks
            if self._is_there(details, pid) and (process := details[pid].process) is not None
        ]
        return self.layers.ras(ranks, samples, self.deadline - 0.2)

    def _say(self, reasons: Mapping[int, str], what: str) -> None:
        self.unread += [Unread(what.format(pid=pid), reason, pid) for pid, reason in reasons.items()]

    def _of(self, task: Task[T], otherwise: T, what: str, deadline: float = 0.0) -> T:
        """A task's result; why there is none is said."""
        try:
            return task.result(deadline or self.deadline)
        except Exception as error:  # one reader that fails, in whatever way, costs its own answer
            self.unread.append(Unread(what, str(getattr(error, "strerror", None) or error or type(error).__name__)))
            return otherwise
