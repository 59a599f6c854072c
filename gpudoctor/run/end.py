"""What is known when the command has ended, and what it means in a few lines.

`look_into` has a child read the logs: its time and memory are bounded, Ctrl-C ends it at once, and a log that nobody
can read costs the explanation only.
"""

import signal
from collections.abc import Callable

import msgspec
from msgspec import Struct

from gpudoctor import active
from gpudoctor.run.endings import ProcessEnded

SECONDS = 15.0
"""Most that the look at the end takes; SLURM and Kubernetes give a job that they end 30 s."""


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
    scheduler: str = ""
    """What SLURM calls the state of that job; empty: it was not asked, or has not answered."""
    oom_kills: int | None = None
    """Of the cgroup while it ran; None: not told."""
    stood: tuple[str, ...] = ()
    """What was found when it stood still, where it did until its end."""
    folder: str = ""
    logs: tuple[str, ...] = ()
    """Names in the folder."""


class EndTold(Struct, frozen=True, kw_only=True):
    """The answer: `found.json` of a report."""

    lines: tuple[str, ...] = ()
    """For the terminal."""
    cause: str | None = None
    """An id of `gpudoctor about`, where one is decided."""
    confidence: float | None = None
    restart: str = "not decided"
    exclude: tuple[str, ...] = ()


def look_into(ended: RunEnded, until: Callable[[float], bool]) -> EndTold:
    """What the logs and the kernel tell. `until(seconds)` waits, and is true when somebody wants us gone."""
    command = active.own_module("gpudoctor.run.after", msgspec.json.encode(ended).decode())
    try:
        child = active.start("the logs", command, timeout=SECONDS)
    except OSError as error:
        return EndTold(lines=(f"the logs were not read: {error.strerror}",))
    left = False
    while not child.is_over() and not left:
        left = until(0.02)
    reply = child.end()
    try:
        return msgspec.json.decode(reply.output, type=EndTold)
    except msgspec.DecodeError:
        why = "interrupted" if left else reply.failure or "no answer"
        return EndTold(lines=(f"the logs were not read: {why}",))


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
