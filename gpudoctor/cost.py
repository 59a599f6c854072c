"""Bounds what a process spends on a foreign file by the limits of the kernel: processor time and address space.

Which trick asks for time or memory does not matter then: keys whose hashes collide, a pattern that tries every way,
lists that hold one another. `spend` is for a command that reads in its own process, `limit_child` for a child that
does nothing else.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import NoReturn

from gpudoctor.bounded import GIB, Bound


class Beyond(BaseException):
    """The bound that was met, as a phrase. No `Exception`, so that nobody in between takes it for a bug."""


class Cost:
    """Bounds what this process spends from now on, until `end`: processor time and address space.

    `Beyond` is raised wherever the process is then; what asks for too much memory gets MemoryError, as always. Only the
    main thread can be interrupted; elsewhere nothing is bounded.
    """

    def __init__(self, bound: Bound) -> None:
        self.bound = bound
        self._handler = signal.getsignal(signal.SIGPROF) if self._can_interrupt else None
        self._memory = _limited_memory(bound.memory) if self._can_interrupt else None
        if self._can_interrupt:
            signal.signal(signal.SIGPROF, self._met)
        self.again()

    @property
    def _can_interrupt(self) -> bool:
        return hasattr(signal, "SIGPROF") and threading.current_thread() is threading.main_thread()

    def again(self) -> None:
        """There is progress: the time counts anew."""
        if self._can_interrupt:
            signal.setitimer(signal.ITIMER_PROF, self.bound.seconds, 1.0)  # once more, where somebody swallowed it

    def end(self) -> None:
        """Nothing is bounded any more."""
        if not self._can_interrupt:
            return
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, self._handler)
        if self._memory is not None:
            import resource

            resource.setrlimit(resource.RLIMIT_AS, self._memory)

    def _met(self, number: int, frame: FrameType | None) -> NoReturn:
        raise Beyond(f"it takes more than {self.bound.seconds} s of computing, the most that is spent on it")

    @property
    def memory_met(self) -> str:
        """What to say of a MemoryError."""
        return f"it takes more than {self.bound.memory / GIB:g} GiB of memory, the most that is spent on it"


_costs: list[Cost] = []
"""Of the command that runs; empty outside of one, so that a library's user is left alone."""
_in_command: list[bool] = []


@contextlib.contextmanager
def command() -> Iterator[None]:
    """While a command runs, `spend` bounds it; at its end the process is as it was."""
    _in_command.append(True)
    try:
        yield
    finally:
        stop()
        _in_command.pop()


def spend(bound: Bound) -> None:
    """From here on a foreign file is worked on, until the command ends or `stop`."""
    if _in_command and not _costs:
        _costs.append(Cost(bound))


def progress() -> None:
    """Another piece of the file is done."""
    for cost in _costs:
        cost.again()


def stop() -> None:
    """The file is dealt with."""
    while _costs:
        _costs.pop().end()


def memory_met() -> str:
    """What to say of a MemoryError; empty where no file is worked on."""
    return _costs[0].memory_met if _costs else ""


def _limited_memory(more: int, before: tuple[int, int] | None = None) -> tuple[int, int] | None:
    """Set the soft limit of address space; the limits as they were, or `before`, where they were set once already."""
    try:
        import resource

        before = before or resource.getrlimit(resource.RLIMIT_AS)
        wanted = address_space() + more
        most = min((limit for limit in before if limit != resource.RLIM_INFINITY), default=wanted)
        resource.setrlimit(resource.RLIMIT_AS, (min(wanted, most), before[1]))
    except (ImportError, OSError, ValueError):  # Windows; macOS refuses
        return None
    return before


def address_space() -> int:
    """Bytes that this process has mapped; a guess where /proc is not there."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[0]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return GIB


# ---------------------------------------------------------------- children that read foreign files


class _Ledger:
    """Processor time that a child may still spend: what it was given, and more for what it reads."""

    def __init__(self) -> None:
        self.seconds = 0.0
        """Granted since the process began."""
        self.is_kept = False
        self.memory: tuple[int, int] | None = None
        """The limits of address space that the process was started with."""


_ledger = _Ledger()


def limit_child(seconds: float, memory: int) -> None:
    """Let the kernel end this process by SIGXCPU after so much processor time, and refuse it more address space.

    For a child that reads foreign files and nothing else: it ends even in the middle of one long call. `grant` gives it
    more, and `killed_by_its_bound` tells the doctor.
    """
    try:
        import resource
    except ImportError:  # Windows
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    _ledger.seconds, _ledger.is_kept = used.ru_utime + used.ru_stime, True
    grant(seconds, memory)


def grant(seconds: float, memory: int = 0) -> None:
    """So many seconds more, and so much memory from here on (0: what there is). Nothing outside of such a child."""
    if not _ledger.is_kept:
        return
    import resource

    if memory:
        _ledger.memory = _limited_memory(memory, _ledger.memory)
    before, _ledger.seconds = int(_ledger.seconds), _ledger.seconds + seconds
    if int(_ledger.seconds) == before and seconds < 1:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    wanted = int(_ledger.seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def killed_by_its_bound(return_code: int | None) -> bool:
    """Whether a child met the seconds of `limit_child`."""
    return return_code is not None and hasattr(signal, "SIGXCPU") and return_code == -signal.SIGXCPU


def processor_seconds(pid: int) -> float:
    """What a process has spent until now; 0.0 where that is not told."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0
