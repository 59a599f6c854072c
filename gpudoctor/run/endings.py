"""What ended each process of the job. Its wait status is told to its parent alone; the kernel shows it to others too.

A pidfd is readable from the moment in which its process has ended. Until the parent has waited for it /proc/PID/stat
tells the status (to the same user), and from Linux 6.15 on the pidfd itself tells it afterwards. Nothing is asked of
the processes, so a job does not notice. A thread waits: which came first is what is wanted, to the millisecond.
"""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct, structs

from gpudoctor.knowledge.rank_variables import MPICH, OPEN_MPI, SLURM, TORCHRUN
from gpudoctor.read import process as processes
from gpudoctor.run.memory import Oom
from gpudoctor.run.unarmed import why

MOST_WATCHED = 512
MOST_KEPT = 64
SETTLE_SECONDS = 0.5
RANK_NAMES = tuple(map(str.encode, (TORCHRUN.rank, OPEN_MPI.rank, MPICH.rank, "PMIX_RANK", SLURM.rank)))
"""As a rank is told its number, the surest first."""
PYTHONS = ("python", "pt_main")
"""As the kernel calls them; torch gives the main thread of some programs the second name."""
RESTARTS = b"TORCHELASTIC_RESTART_COUNT="
SPAWNED = b"--multiprocessing-fork"
OF_DOCTOR = (b"; from gpudoctor.", b"/gpudoctor/run/relay.py")
"""In the command lines of what a doctor starts (active.own_module, attendant.py)."""


class ProcessEnded(Struct, frozen=True, kw_only=True):
    """One process of the job, and how it has ended."""

    pid: int
    host: str = ""
    """Another node's, where several are attended together."""
    name: str = ""
    rank: int | None = None
    of_rank: int | None = None
    """The rank that has started it: a data loader, a helper."""
    seconds: float = 0.0
    """After the start."""
    status: int | None = None
    """Its exit status; below 0 the signal that ended it; None: not told."""
    spawned: bool = False
    """By Python's multiprocessing."""
    parent: int = 0
    oom: Oom = ""
    """As it died, perhaps of SIGKILL, the kernel had ended a process of its cgroup for want of memory."""
    cpu_limit: float = 0.0
    """Seconds of a processor that it might use and had used up when SIGKILL ended it; 0: it had not."""
    attempt: int | None = None
    """Of torchrun's, the first 0; None: nothing tells that there are several."""
    of_doctor: bool = False
    """A helper of another `gpudoctor run`, which the command is or has started, and which ends it."""


class Endings:
    """Of one job: processes are added as they are seen."""

    def __init__(self, began: float, oom: Callable[[int], Oom], cpu_limit: Callable[[int], float]) -> None:
        import resource
        import select

        self._began = began
        self._oom, self._cpu_limit = oom, cpu_limit
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._most = min(MOST_WATCHED, soft // 3 if soft > 0 else MOST_WATCHED)
        self._new: list[int] = []
        """Added since the last look."""
        self._poll = select.epoll()
        self._watched: dict[int, ProcessEnded] = {}
        self._ended: list[ProcessEnded] = []
        self.unarmed: dict[int, str] = {}
        """Of ranks by their process id, why they cannot be armed; empty where they can."""
        threading.Thread(target=self._wait, daemon=True).start()

    def add(self, pid: int) -> None:
        """From now on its end is noticed."""
        if len(self._watched) >= self._most:
            return
        with contextlib.suppress(OSError):  # it is gone, or no descriptor is left
            watched = os.pidfd_open(pid)
            self._watched[watched] = self._described(pid)
            self._new.append(watched)
            self._poll.register(watched, 1)  # EPOLLIN

    def describe(self) -> list[int]:
        """Once again: what was seen between its fork and its exec was still its parent. Those that live of them."""
        again, self._new = self._new, []
        for watched in again:
            if (known := self._watched.get(watched)) is not None:
                known = self._described(known.pid)
                if watched in self._watched:
                    self._watched[watched] = known
        return [known.pid for watched in again if (known := self._watched.get(watched)) is not None]

    def _wait(self) -> None:
        while True:
            for watched, _ in self._poll.poll():
                now = time.monotonic() - self._began
                known = self._watched.get(watched)
                if known is not None:
                    status = processes.status_of_ended(known.pid, watched)
                    if status != 0 and not known.of_doctor and len(self._ended) < MOST_KEPT:
                        oom = self._oom(known.pid) if status in (None, -signal.SIGKILL) else ""
                        limit = self._cpu_limit(known.pid) if status == -signal.SIGKILL else 0.0
                        death = structs.replace(known, seconds=now, status=status, oom=oom, cpu_limit=limit)
                        self._ended.append(death)
                    self._watched.pop(watched, None)
                with contextlib.suppress(OSError):
                    self._poll.unregister(watched)
                os.close(watched)

    def _described(self, pid: int) -> ProcessEnded:
        seen = processes.seen(pid)
        parent = seen.parent if seen is not None else 0
        environ, words = _told(pid, "environ"), _told(pid, "cmdline")
        rank = next(_ranks(environ), None)
        inherited = rank is not None and rank == next(_ranks(_told(parent, "environ")), None)
        spawned = SPAWNED in words.split(b"\0") and not inherited
        if (rank is not None and not inherited) or spawned:
            self.unarmed[pid] = why(words, environ)
        return ProcessEnded(
            pid=pid,
            name=processes.name_of(pid),
            rank=None if inherited else rank,
            of_rank=rank if inherited else None,
            spawned=spawned,
            parent=parent,
            attempt=_attempt(environ),
            of_doctor=any(mark in words for mark in OF_DOCTOR),
        )

    def attempt(self) -> int:
        """The newest of those that live or have lived."""
        return max((known.attempt or 0 for known in list(self._watched.values())), default=0)

    def name_ranks(self, ranks: Mapping[int, int]) -> None:
        """By process id, where their environment does not tell."""
        for watched, known in list(self._watched.items()):
            if known.rank is None and known.pid in ranks and watched in self._watched:
                self._watched[watched] = structs.replace(known, rank=ranks[known.pid])

    def ranks(self) -> tuple[int, ...]:
        """Those that live and are ranks by their environment, or may be, as pythons: one that was started by hand."""
        return tuple(
            known.pid
            for known in list(self._watched.values())
            if known.rank is not None or known.spawned or (known.of_rank is None and known.name.startswith(PYTHONS))
        )

    def left_behind(self) -> tuple[int, ...]:
        """Ranks that live, though a signal has ended what had started them."""
        killed = {death.pid for death in self._ended if (death.status or 0) < 0}
        every = list(self._watched.values())
        return tuple(sorted(known.rank for known in every if known.rank is not None and known.parent in killed))

    def seen(self) -> tuple[ProcessEnded, ...]:
        """Those that have not ended with status 0, as far as is known by now, the first first."""
        return tuple(sorted(self._ended, key=lambda death: death.seconds))

    def abnormal(self) -> tuple[ProcessEnded, ...]:
        """Those that have not ended with status 0, the first first. What has ended by now is waited for."""
        import select

        deadline = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < deadline:
            over = select.poll()
            for watched in list(self._watched):
                over.register(watched, select.POLLIN)
            if not over.poll(0):
                break
            time.sleep(0.002)
        return self.seen()


def _told(pid: int, what: str) -> bytes:
    try:
        return processes.THIS.raw(f"/proc/{pid}/{what}", 1 << 20)
    except OSError:  # it is gone, or another user's
        return b""


def _attempt(environ: bytes) -> int | None:
    value = next((line[len(RESTARTS) :] for line in environ.split(b"\0") if line.startswith(RESTARTS)), b"")
    return int(value) if value.isdigit() and len(value) < 8 else None


def _ranks(environ: bytes) -> Iterator[int]:
    variables = dict(line.partition(b"=")[::2] for line in environ.split(b"\0"))
    for name in RANK_NAMES:
        value = variables.get(name, b"")
        if value.isdigit() and len(value) < 8:
            yield int(value)
