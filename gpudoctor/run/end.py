"""What is known when the command has ended, and the form of what it means in a few lines."""

import signal

from msgspec import Struct

from gpudoctor import active
from gpudoctor.run.endings import ProcessEnded

ENDING_SECONDS = 120.0
"""A launcher gives its ranks 30 s to end, some 60; what lived on longer after a signal has ended for another reason."""
LIMIT_SECONDS = 2.0
ASKED = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)


class SignalSeen(Struct, frozen=True, kw_only=True):
    """A signal that reached the doctor, and with it the command or its whole group."""

    number: int
    seconds: float
    """After the start."""
    by_terminal: bool = False
    pid: int = 0
    """Of who sent it; 0 where that is the kernel, or a process that this one cannot see."""
    sender: str = ""
    """Its name."""


class RunEnded(Struct, frozen=True, kw_only=True):
    """Of the command."""

    status: int
    """Its exit status; below 0 the signal that ended it."""
    seconds: float
    signals: tuple[SignalSeen, ...] = ()
    pid: int = 0
    began: float = 0.0
    """On the clock of time.monotonic."""
    pids: tuple[int, ...] = ()
    """Processes of the job, as far as they were seen."""
    ended: tuple[ProcessEnded, ...] = ()
    """Of these, what did not end well, the first first."""
    name: str = ""
    """Of the command's program."""
    slurm_job: str = ""
    slurm_end: float = 0.0
    """When SLURM ends that job at the latest, in seconds since 1970; 0: not told."""
    scheduler: str = ""
    """What SLURM calls the state of that job; empty: it was not asked, or has not answered."""
    oom_kills: int | None = None
    """Of the cgroup while it ran; None: not told."""
    stood: tuple[str, ...] = ()
    """What was found when it stood still, where it did until its end."""
    stood_cause: str = ""
    stood_confidence: float = 0.0
    reader_left: bool = False
    """Whoever read what it says has gone before it ended."""
    folder: str = ""
    logs: tuple[str, ...] = ()
    """Names in the folder."""
    gone: tuple[str, ...] = ()
    """Nodes of which nothing was heard any more, and that said no word."""
    gone_seconds: float = 0.0
    """After the start, of the first of them."""


class EndTold(Struct, frozen=True, kw_only=True):
    """The answer: `found.json` of a report."""

    lines: tuple[str, ...] = ()
    """For the terminal."""
    cause: str | None = None
    """An id of `gpudoctor about`, where one is decided."""
    confidence: float | None = None
    restart: str = "not decided"
    exclude: tuple[str, ...] = ()


def asked_to_end(ended: RunEnded) -> SignalSeen | None:
    """The signal by which somebody asked it to end, and it ended."""
    first = min((process_ended.seconds for process_ended in ended.ended), default=ended.seconds)
    for seen in ended.signals:
        if seen.number in ASKED and ended.seconds - seen.seconds < ENDING_SECONDS and seen.seconds <= first + 0.5:
            return seen
    return None


def ended_at_limit(ended: RunEnded, now: float) -> bool:
    """Whether SLURM has ended it at its time limit: a signal did, then."""
    number = -ended.status if ended.status < 0 else ended.status - 128
    by_signal = number in (*ASKED, signal.SIGKILL) or asked_to_end(ended) is not None
    return by_signal and 0 < ended.slurm_end - LIMIT_SECONDS <= now


def named(number: int) -> str:
    """ "SIGKILL"."""
    return active.signal_name(number)


def by_whom(seen: SignalSeen) -> str:
    """ "SIGTERM, sent by slurmstepd (process 4711)"."""
    name = named(seen.number)
    if seen.by_terminal:
        keys = {signal.SIGINT: "Ctrl-C", signal.SIGQUIT: "Ctrl-\\"}.get(signal.Signals(seen.number))
        return f"{name} ({keys})" if keys else f"{name} of the terminal"
    if not seen.pid:
        return f"{name}, sent from outside of this container or by the kernel"
    return f"{name}, sent by {seen.sender or 'a process that is gone'} (process {seen.pid})"
