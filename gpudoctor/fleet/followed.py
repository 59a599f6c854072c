"""`Followed`: what the ranks of a launch have said, and the files in memory that outlive them."""

import contextlib
import os
import threading
import time
from collections.abc import Callable

import msgspec

from gpudoctor.marked import MARK
from gpudoctor.read.process import ProcStat, ancestors, lives, seen

MAXIMUM_FILE_BYTES = 8 * 1024 * 1024
"""Of a rank's log or standard error, no more than its end is looked at."""

MOST_RANKS = 1024
"""Of one node: many times the GPUs that one has."""


class _Line(msgspec.Struct, frozen=True):
    """What this side needs of a rank's message (nccl/rank_messages.py, which is read by the head)."""

    type: str
    rank: int = 0
    local_rank: int = 0
    pid: int = 0
    log_fd: int = -1
    error_fd: int = -1
    phase: str = ""
    error: str = ""


_decoder = msgspec.json.Decoder(_Line)

FORWARDED = frozenset({"member", "row", "skipped", "trained", "failed"})


class FollowedRank:
    """One rank, from its first word on."""

    def __init__(self, rank: int, local_rank: int, pid: int) -> None:
        self.rank = rank
        self.local_rank = local_rank
        self.pid = pid
        self.process: ProcStat | None = None
        self.phase = ""
        self.since = time.monotonic()
        self.failed = ""
        """The exception that it told."""
        self.finished = False
        self.log: int | None = None
        self.errors: int | None = None

    def open(self, number: int) -> int | None:
        """Its file in memory, by our own descriptor: it is there for us when the rank is gone.

        None of another process's: the number of the process is what was said, and we may be root.
        """
        if number < 0 or self.process is None:
            return None
        try:
            return os.open(f"/proc/{self.pid}/fd/{number}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None


class Followed:
    """The ranks of one launch on this node. `hear` is for torchrun's reader thread, the rest for whoever watches."""

    def __init__(self, said: Callable[[int, msgspec.Raw], None]) -> None:
        self._said = said
        self._lock = threading.Lock()
        self._ranks: dict[int, FollowedRank] = {}
        self._lowest: int | None = None
        self._closed = False

    def hear(self, line: bytes) -> None:
        """Take a line of torchrun's standard output. Never raises."""
        if not line.startswith(MARK):
            return  # a chatty library
        raw = line[len(MARK) :]
        try:
            said = _decoder.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        with self._lock:
            if self._closed:
                return
            self._note(said)
            forward = said.type in FORWARDED or (said.type == "phase" and said.rank == self._lowest)
        if forward:
            self._said(said.rank, msgspec.Raw(raw))

    def _note(self, said: _Line) -> None:
        if said.type == "begun":
            self._begin(said)
            return
        rank = self._ranks.get(said.rank)
        if rank is None:
            return
        if said.type == "phase":
            rank.phase, rank.since = said.phase, time.monotonic()
        elif said.type == "failed":
            rank.failed = said.error
        elif said.type == "finished":
            rank.finished = True

    def _begin(self, said: _Line) -> None:
        if said.rank in self._ranks or len(self._ranks) >= MOST_RANKS:
            return
        rank = self._ranks[said.rank] = FollowedRank(said.rank, said.local_rank, said.pid)
        # The number comes from outside: nothing is signalled or killed that we have not started.
        rank.process = seen(said.pid) if os.getpid() in ancestors(said.pid) else None
        rank.log = rank.open(said.log_fd)
        rank.errors = rank.open(said.error_fd)
        if said.local_rank == 0 or self._lowest is None:  # the only one here may be local rank 3 (symmetric mode)
            self._lowest = said.rank

    def all(self) -> tuple[FollowedRank, ...]:
        """In the order of their ranks."""
        with self._lock:
            return tuple(self._ranks[rank] for rank in sorted(self._ranks))

    def processes(self) -> tuple[ProcStat, ...]:
        return tuple(rank.process for rank in self.all() if rank.process is not None)

    def one_died(self) -> bool:
        """A rank has told its failure, or is gone without having finished."""
        return any(
            rank.failed or (not rank.finished and rank.process is not None and not lives(rank.process))
            for rank in self.all()
        )

    def close(self) -> None:
        """Let go of their files; what is still said is not heard."""
        with self._lock:
            self._closed = True
            for rank in self._ranks.values():
                for descriptor in (rank.log, rank.errors):
                    if descriptor is not None:
                        with contextlib.suppress(OSError):
                            os.close(descriptor)
                rank.log = rank.errors = None


def text(descriptor: int | None) -> str:
    """The file's text, or its end where that is long; empty without a file."""
    if descriptor is None:
        return ""
    try:
        start = max(0, os.fstat(descriptor).st_size - MAXIMUM_FILE_BYTES)
        return os.pread(descriptor, MAXIMUM_FILE_BYTES, start).decode("utf-8", "replace")
    except OSError:
        return ""
