"""What is known when the command has ended, and the form of what it means in a few lines."""

import signal
from pathlib import Path

from msgspec import Struct

from gpudoctor import active
from gpudoctor.lazy import lazy_re
from gpudoctor.run.endings import ProcessEnded
from gpudoctor.run.memory import MemorySeen

ENDING_SECONDS = 120.0
"""A launcher gives its ranks 30 s to end, some 60; what lived on longer after a signal has ended for another reason."""
LIMIT_SECONDS = 2.0
KERNEL = "kernel.log"
"""What the kernel said of the job, in the folder of a report."""
SLURMS_WORD = lazy_re(
    rb"\*\*\* (?:JOB|STEP) (\d{0,20})\S{0,20} (?:ON \S{1,255} )?CANCELLED AT \S{1,40} DUE TO "
    rb"(TIME LIMIT|PREEMPTION|JOB REQUEUE|NODE FAILURE)[ ,]"
    rb"|\*\*\* JOB (\d{0,20})\S{0,20} (?:ON \S{1,255} )?CANCELLED AT \S{1,40} \*"
)
OF_SLURMS_WORD = {
    b"TIME LIMIT": "time-limit",
    b"PREEMPTION": "preempted",
    b"JOB REQUEUE": "requeued",
    b"NODE FAILURE": "node-lost",
    b"": "cancelled",
}
"""slurmstepd's (src/slurmd/slurmstepd/req.c) and srun's, which it writes before it sends the signal: into the output of
a batch job, and to its step's srun. A step without a reason may be what srun itself ends, because a task has failed."""
TAIL_BYTES, MOST_LOGS = 32 * 1024, 8
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
    ignored: bool = False
    """By all processes of the job, as nohup has SIGHUP ignored."""


class AttemptSeen(Struct, frozen=True, kw_only=True):
    """Ranks were started again."""

    number: int
    """The first attempt is 0, as TORCHELASTIC_RESTART_COUNT has it."""
    seconds: float
    said: int | None = None
    """Bytes that the command had said by then; None: not told."""


class SchedulersWord(Struct, frozen=True, kw_only=True):
    """What Kubernetes or SLURM says of an end."""

    cause: str
    confidence: float
    summary: str
    variant: str = ""


class NodeEnded(Struct, frozen=True, kw_only=True):
    """What is known there alone of the end on another node."""

    name: str
    asked: SignalSeen | None = None
    """By which somebody had asked it to end."""
    word: SchedulersWord | None = None


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
    memory: MemorySeen = MemorySeen()
    cpu_limit: float = 0.0
    """Of the command itself (ProcessEnded.cpu_limit)."""
    stood: tuple[str, ...] = ()
    """What was found when it stood still, where it did until its end."""
    stood_cause: str = ""
    stood_confidence: float = 0.0
    reader_left: bool = False
    """Whoever read what it says has gone before it ended."""
    log_ended: bool = False
    """What it said last is not kept."""
    folder: str = ""
    logs: tuple[str, ...] = ()
    """Names in the folder."""
    attempts: tuple[AttemptSeen, ...] = ()
    """That torchrun has made after the first one."""
    nodes: int = 0
    """Of the job; 0: not told."""
    elsewhere: tuple[NodeEnded, ...] = ()
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
    variant: str | None = None
    """Of its fix, where what was seen while it ran tells the cause; None: the logs do."""
    restart: str = "not decided"
    exclude: tuple[str, ...] = ()


def asked_to_end(ended: RunEnded) -> SignalSeen | None:
    """The signal by which somebody asked it to end, and it ended."""
    first = min((process_ended.seconds for process_ended in ended.ended), default=ended.seconds)
    for seen in ended.signals:
        if (
            seen.number in ASKED
            and not seen.ignored
            and ended.seconds - seen.seconds < ENDING_SECONDS
            and seen.seconds <= first + 0.5
        ):
            return seen
    return None


def by_slurm(ended: RunEnded, now: float) -> str:
    """The cause, or "requeued", where SLURM has ended the job and says why; empty: it has not, or does not say. By the
    last lines that were kept, at once: SLURM does not wait for a look (KillWait)."""
    number = -ended.status if ended.status < 0 else ended.status - 128
    if number not in (*ASKED, signal.SIGKILL) and asked_to_end(ended) is None:
        return ""
    if now - ended.seconds < ended.slurm_end <= now + LIMIT_SECONDS:  # and no job's in which a shell has lived on
        return "time-limit"
    own = ended.slurm_job.encode()
    said = [
        word
        for name in ended.logs[:MOST_LOGS]
        for of_step, word, of_job in SLURMS_WORD.findall(_tail(Path(ended.folder, name)))
        if not own or own in (of_step, of_job)
    ]
    return OF_SLURMS_WORD[said[-1]] if said else ""


def _tail(log: Path) -> bytes:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            return file.read(TAIL_BYTES)
    except OSError:
        return b""


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
