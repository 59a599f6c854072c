"""What ended a job, by what was seen while it ran: who asked it to end, and which of its processes died first, of what.

Rules over plain data. What a log says of its own error comes first; what follows from a death (a closed connection, a
time-out of the others, a launcher's table) does not.
"""

import os
import re
import signal
from collections.abc import Sequence

from msgspec import Struct

from gpudoctor.causes import CAUSES
from gpudoctor.explain.deaths import OF_LAUNCHERS
from gpudoctor.explain.endings import OF_SIGNAL, signal_number
from gpudoctor.explain.report import Explanation, LogCause
from gpudoctor.lazy import lazy_re
from gpudoctor.read.job.kernel import XID_PID
from gpudoctor.run.end import ASKED, ENDING_SECONDS, KERNEL, RunEnded, SignalSeen, asked_to_end, by_whom, named
from gpudoctor.run.endings import PYTHONS, ProcessEnded
from gpudoctor.run.kernel import KernelSaid
from gpudoctor.sure import LIKELY, PRIMARY, PROVED, SEEN

TOLD = (*ASKED, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU)
SAYS_NOTHING = (signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGSYS)
"""Whoever such a signal ends has said nothing of it; what others say is what follows."""
FOLLOWS = frozenset(
    {
        *("rank-died", "native-crash", "node-lost", "store-host-exit", "rdma-peer-lost", "slow-rank-timeout"),
        *("straggler", "master-unreachable", "rendezvous-incomplete", "rank-not-started", "rank-away", "cancelled"),
        *("session-closed", "uneven-inputs", "store-key-missing", "collective-order-mismatch", "shm-too-small"),
    }
)
"""What logs say of a job whose rank was ended by such a signal, or that was asked to end."""
OF_AN_ABORT = ("native-crash", "rank-died")
"""What a log says of an abort by itself."""
GONE_SECONDS = 60.0
"""So much later than it happened the loss of a node may be noticed."""
BY_ITSELF = "by itself"
LOOPBACK = "master-addr-loopback"
NOTICED_SECONDS = 10.0
"""Until a rank has failed of the death of what helps it: torch's loader looks every 5 s."""
ENDS_HELPERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE)
CALLED = "subprocess.CalledProcessError: "
"""Raised by launchers too: those that are programs of packages, and of which a rank has ended first."""
HELPERS = (*PYTHONS, "pt_data")
"""As the kernel calls them; the second are torch's data loader workers."""
PARTNER_GONE = ("ConnectionResetError", "BrokenPipeError", "EOFError", "ConnectionRefusedError")
BROKEN_POOL = "BrokenProcessPool"
"""Of concurrent.futures, whatever has ended a worker of it."""
COUNTER = "its counter oom_kill"
LIMITED_BY = (
    ("KUBERNETES_SERVICE_HOST", "pod"),
    ("SLURM_JOB_ID", "slurm"),
    ("LSB_JOBID", "limit"),
    ("PBS_JOBID", "limit"),
)
"""What tells who has given the memory, and the variant of the fix."""
OF_A_KILL = lazy_re(r"(?<![\w.])-9\b|\bSIGKILL\b|\b[Kk]illed\b|\bsignal:? 9\b|\b137\b")
AT_ONCE_SECONDS = 0.5
"""The kernel counts, which systemd is told, before the process whose end it counts is gone."""
TIMEOUT_STATUS = 124
"""Of timeout(1), which ends what it has started and nobody else."""


class Found(Struct, frozen=True, kw_only=True):
    """One cause, in words."""

    cause: str
    confidence: float
    summary: str
    variant: str = ""

    @property
    def restart(self) -> str:
        """Whether starting it again helps."""
        known = CAUSES[self.cause]
        judged = known.judged.get(self.variant)
        return judged.restart if judged is not None else known.restart


def first_death(ended: RunEnded) -> ProcessEnded | None:
    """The process whose end ended the job: the first that died by a signal, or as a rank. Programs that a job starts
    beside and that fail are no ranks, and so are those that died long before it ended."""
    for process_ended in ended.ended:
        if ended.seconds - process_ended.seconds > ENDING_SECONDS or process_ended.status is None:
            continue
        if process_ended.rank is not None or process_ended.spawned:
            return process_ended
        if process_ended.status < 0 and not _was_only_helping(process_ended, ended):
            return process_ended
    own = _command(ended)
    if ended.status < 0:
        return own
    child = next((process_ended for process_ended in ended.ended if process_ended.status == ended.status), None)
    death = child or own
    return death if death.name.startswith(PYTHONS) else None


def _command(ended: RunEnded) -> ProcessEnded:
    return ProcessEnded(
        pid=ended.pid,
        name=ended.name,
        seconds=ended.seconds,
        status=ended.status,
        oom=ended.memory.of_command,
        cpu_limit=ended.cpu_limit,
    )


def _was_only_helping(death: ProcessEnded, ended: RunEnded) -> bool:
    """Whether what a rank had started beside itself was ended by it (terminate, close) or is not what it failed of."""
    alone = ended.name.startswith(PYTHONS) and all(each.rank is None and not each.spawned for each in ended.ended)
    if death.of_rank is None and not (alone and death.parent == ended.pid):
        return False
    after = [each for each in ended.ended if each.rank is not None and each.rank == death.of_rank]
    end = after[0] if after else _command(ended)
    by_its_rank = (end.status or 0) > 0 and -(death.status or 0) in ENDS_HELPERS
    return by_its_rank or end.seconds - death.seconds > NOTICED_SECONDS


def for_memory(ended: RunEnded, kernel: KernelSaid) -> Found | None:
    """That the kernel ended a process of the job for want of memory, before anything else of it ended or anybody had
    asked it to end. systemd asks all of a unit to end as soon as the kernel has ended one of it (OOMPolicy=stop)."""
    first, asked = first_death(ended), asked_to_end(ended)
    begun = first.seconds if first is not None else ended.seconds
    if asked is not None:
        begun = min(begun, asked.seconds + AT_ONCE_SECONDS)
    died = {each.pid: each for each in ended.ended if not each.host and each.seconds <= begun}
    for event in kernel.events:
        if event.kind == "oom" and (
            event.pid in died or (asked is None and event.pid not in {each.pid for each in ended.ended})
        ):
            whom = who(died[event.pid], ended) if event.pid in died else "a process of it"
            words = f"the kernel ended {whom.removesuffix(',')} for want of memory: {event.text}"
            return Found(cause="host-out-of-memory", confidence=PROVED, summary=words, variant=_limited_by())
    hidden = ended.status in (-signal.SIGKILL, 128 + signal.SIGKILL) or first is None
    killed = [
        each
        for each in (*died.values(), *([first] if first is not None and first.seconds <= begun else ()))
        if each.oom in ("own", "shared") and (each.status == -signal.SIGKILL or (each.status is None and hidden))
        if ended.seconds - each.seconds <= ENDING_SECONDS
        if each.oom == "own" or not kernel.names_others
    ]
    if killed:
        shared = killed[0].oom == "shared"
        words = f"the kernel ended a process of its cgroup for want of memory as {who(killed[0], ended)} was killed"
        words += ", and there are others in that cgroup" if shared else ""
        sure = LIKELY if shared else SEEN
        return Found(cause="host-out-of-memory", confidence=sure, summary=f"{words} ({COUNTER})", variant=_limited_by())
    rise = ended.memory.own_seconds
    if rise is not None and begun - NOTICED_SECONDS < rise <= begun and (first is None or (first.status or 0) > 0):
        words = f"the kernel ended a process of it for want of memory shortly before ({COUNTER})"
        return Found(cause="host-out-of-memory", confidence=LIKELY, summary=words, variant=_limited_by())
    return None


def _limited_by() -> str:
    return next((variant for name, variant in LIMITED_BY if name in os.environ), "")


def _tells_of_the_killed(said: LogCause, ended: RunEnded) -> bool:
    """Whether a program's own error is that what it had started was killed, and a helper was, for want of memory."""
    if said.cause != "program-error":
        return False
    texts = [line.text for line in said.evidence]
    killed = {str(each.pid) for each in ended.ended if each.oom in ("own", "shared") and each.rank is None}
    numbers = {number for text in texts for number in re.findall(r"\d+", text)}
    of_kill = any(OF_A_KILL.search(text) or text.startswith(PARTNER_GONE) for text in texts)
    return bool(killed) and (of_kill or not killed.isdisjoint(numbers))


def _said(ended: RunEnded, answer: Explanation, death: ProcessEnded | None) -> LogCause | None:
    """What the logs tell, but for what was seen to be otherwise: no event of a GPU ends a process by such a signal, and
    SIGKILL, which a log takes for want of memory, was not that where nobody was ended so."""
    said = answer.causes[0] if answer.causes and answer.causes[0].confidence >= PRIMARY else None
    if said is None or death is None or -(death.status or 0) not in SAYS_NOTHING:
        return said
    lost = any(BROKEN_POOL in line.text for line in said.evidence)
    guessed = said.cause == "host-out-of-memory" and (said.confidence <= LIKELY or lost) and ended.memory.kills == 0
    return None if _of_kernel_alone(said, ended) or (guessed and not death.host) else said


def found(
    ended: RunEnded, answer: Explanation, of_memory: Found | None = None, by_scheduler: Found | None = None
) -> Found | None:
    """The cause that what was seen shows; None where the log is to speak. `of_memory`: see for_memory; `by_scheduler`:
    what SLURM or Kubernetes says of it."""
    death = first_death(ended)
    said = _said(ended, answer, death)
    asked = asked_to_end(ended)
    if of_memory is not None and (
        said is None or said.cause in {*FOLLOWS, of_memory.cause} or _tells_of_the_killed(said, ended)
    ):
        return of_memory
    if said is not None and said.cause == LOOPBACK and ended.nodes == 1 and death is not None:
        return _of_gone_address(ended, death)
    if said is not None and said.cause not in FOLLOWS:
        return None
    if by_scheduler is not None:
        return by_scheduler
    if asked is not None:
        return _of_asked(asked)
    if death is not None and (by := next((node for node in ended.elsewhere if node.name == death.host), None)):
        if by.word is not None:
            summary = f"on {by.name}, {by.word.summary}"
            return Found(cause=by.word.cause, confidence=by.word.confidence, summary=summary, variant=by.word.variant)
        if by.asked is not None and -(death.status or 0) in ASKED:
            return _of_asked(by.asked, by.name)
    if ended.gone and (death is None or death.seconds > ended.gone_seconds - GONE_SECONDS):
        name = f"{ended.gone[0]} was lost" if len(ended.gone) == 1 else f"{len(ended.gone)} nodes were lost"
        summary = f"{name}, or its network: nothing was heard of it after {ended.gone_seconds:.0f} s"
        return Found(cause="node-lost", confidence=LIKELY, summary=summary)
    if death is not None:
        return _of_death(ended, death, said, answer)
    return None if said is not None else _of_status(ended)


def _of_gone_address(ended: RunEnded, death: ProcessEnded) -> Found:
    """All ranks of one node reach each other by its loopback: who is refused there comes to nobody."""
    before = any(each.number for each in ended.attempts)
    stale = ": torch's store still tells addresses of the attempt before" if before else ""
    summary = f"{who(death, ended)} found nobody at the address of another rank of this node, which had ended{stale}"
    return Found(cause="rank-died", confidence=LIKELY, summary=summary, variant=BY_ITSELF)


def _of_status(ended: RunEnded) -> Found | None:
    """A shell, srun and mpirun end with 128 + the number of the signal that ended what they had started."""
    kind = OF_SIGNAL.get(signal_number(ended.status)) if ended.status > 0 else None
    if kind is None:
        return None
    words = kind.words.format(name=named(signal_number(ended.status)))
    summary = f"a process that {ended.name or 'the command'} had started {words}: exit status {ended.status}"
    return Found(cause=kind.cause, confidence=LIKELY, summary=summary, variant=kind.variant)


def _of_asked(asked: SignalSeen, node: str = "") -> Found:
    """`node`: another one, where it was asked."""
    whose = f"its part on {node}" if node else "it"
    if asked.number == signal.SIGHUP:
        return Found(
            cause="session-closed",
            confidence=SEEN,
            summary=f"its session{f' on {node}' if node else ''} was closed: it got {by_whom(asked)}",
        )
    summary = f"{whose} was asked to end: it got {by_whom(asked)}"
    variant = "pod" if not asked.pid and "KUBERNETES_SERVICE_HOST" in os.environ else ""
    return Found(cause="cancelled", confidence=SEEN, summary=summary, variant=variant)


def who(death: ProcessEnded, ended: RunEnded) -> str:
    """ "rank 1 (process 4711)", "rank 9 (process 4711 on n2)"."""
    place = f"process {death.pid} on {death.host}" if death.host else f"process {death.pid}"
    if death.rank is not None:
        return f"rank {death.rank} ({place})"
    if death.pid == ended.pid and not death.host:
        return f"the command itself ({death.name}, process {death.pid})"
    if death.of_rank is not None:
        return f"{death.name}, which rank {death.of_rank} had started ({place}),"
    return f"{'a spawned process, ' if death.spawned else ''}{death.name or 'a process'} ({place})"


def _of_death(ended: RunEnded, death: ProcessEnded, said: LogCause | None, answer: Explanation) -> Found | None:
    status = death.status or 0
    name = who(death, ended)
    if ended.status == TIMEOUT_STATUS and ended.name == "timeout":
        return Found(cause="cancelled", confidence=SEEN, summary=f"timeout, which started it, ended it: {name}")
    if status > 0:
        if (said is not None and said.cause != "rank-died") or ended.log_ended:
            return None
        if (helper := _lost_helper(ended, answer)) is not None:
            summary = f"{who(helper, ended)} ended with exit status {helper.status}, and {name} failed of that"
            return Found(cause="rank-died", confidence=LIKELY, summary=summary, variant=BY_ITSELF)
        if death.rank is None and not death.spawned:
            if (called := answer.unknown or "").startswith(CALLED) and "-packages/" not in called:
                what = called.removesuffix(": its cause is not known")
                summary = f"{name} ended as a command that it had called failed: {what}"
                return Found(cause="program-error", confidence=LIKELY, summary=summary)
            if said is not None or answer.trouble or _raised(answer):
                return None  # its output says something, that nobody has understood
        first = "ended" if death.pid == ended.pid and not death.host else "ended first,"
        summary = f"{name} {first} with exit status {status}, and no line that is known here says why"
        return Found(cause="rank-died", confidence=LIKELY, summary=summary, variant=BY_ITSELF)
    number = -status
    by = named(number)
    if number in SAYS_NOTHING:
        kind = OF_SIGNAL.get(number)
        if number == signal.SIGKILL and death.cpu_limit:
            summary = f"{name} used up its processor time (ulimit -t {death.cpu_limit:.0f}): SIGKILL"
            return Found(cause="time-limit", confidence=SEEN, summary=summary)
        if number == signal.SIGKILL:
            return Found(
                cause="rank-died",
                confidence=LIKELY if death.oom == "either" else SEEN,
                summary=f"{name} was killed by SIGKILL{'' if death.host else _memory(ended, death)}",
                variant="killed",
            )
        if kind is not None and kind.cause != "native-crash":
            return Found(
                cause=kind.cause, confidence=kind.confidence, summary=f"{name} was {kind.words.format(name=by)}"
            )
        return Found(cause="native-crash", confidence=SEEN, summary=f"{name} crashed in native code: {by}")
    if number == signal.SIGXCPU:
        summary = f"{name} used up its processor time (ulimit -t): SIGXCPU"
        return Found(cause="time-limit", confidence=SEEN, summary=summary)
    if said is not None and said.cause not in ("rank-died", "cancelled"):
        return None
    if number == signal.SIGABRT and any(each.cause not in OF_AN_ABORT for each in answer.causes):
        return None  # NCCL's watchdog ends a rank so, and the log tells what it has waited for, if not for certain
    if number == signal.SIGABRT:
        return Found(cause="native-crash", confidence=LIKELY, summary=f"{name} aborted itself: {by}")
    summary = f"{name} was ended by {by}, and nothing of the job had failed before"
    return Found(cause="rank-died", confidence=LIKELY, summary=summary, variant="asked to end")


def _lost_helper(ended: RunEnded, answer: Explanation) -> ProcessEnded | None:
    """A Python process that a rank had started beside itself (a data loader's worker, a pool's), of whose end the log
    speaks by its number alone, or by the error of one whose partner has gone."""
    said = " ".join(line.text for cause in answer.causes[:1] for line in cause.evidence)
    numbers = {*re.findall(r"\d+", said)}
    partner_gone = (answer.unknown or "").startswith(PARTNER_GONE)
    for each in ended.ended:
        is_helper = each.rank is None and each.pid != ended.pid and not each.host and each.name.startswith(HELPERS)
        failed = (each.status or 0) > 0 and ended.seconds - each.seconds < NOTICED_SECONDS
        if is_helper and failed and (partner_gone or str(each.pid) in numbers):
            return each
    return None


def _raised(answer: Explanation) -> bool:
    """Whether its output holds an error of its own, that no table knows."""
    name = (answer.unknown or "").partition(":")[0].rpartition(".")[2]
    return bool(name) and name not in OF_LAUNCHERS


def _memory(ended: RunEnded, death: ProcessEnded) -> str:
    if death.oom == "either":
        return (
            "; the kernel ended a process of its cgroup for want of memory then, and one that is not the job's went at "
            "that time too: whether it was this one is not told"
        )
    kills = ended.memory.kills
    if kills is None:
        return "; whether for want of memory is not told"
    some = "the kernel ended others of its cgroup for want of memory while it ran, but none as it died"
    return f"; {some}" if kills else "; no process of its cgroup was ended for want of memory"


def _of_kernel_alone(said: LogCause, ended: RunEnded) -> bool:
    """Whether nothing but the kernel's log tells of it, and that names no process of the job."""
    named_there = [XID_PID.search(line.text) for line in said.evidence if line.file.endswith(KERNEL)]
    of_job = any(match and int(match[1]) in ended.pids for match in named_there)
    return len(named_there) == len(said.evidence) and not of_job


def others(ended: RunEnded, shown: int = 4) -> Sequence[str]:
    """The ranks' ends in their order, where there are several: one line."""
    ranks = [
        process_ended
        for process_ended in ended.ended
        if process_ended.rank is not None and process_ended.status is not None
    ]
    if len(ranks) < 2:
        return ()
    words = [f"rank {rank.rank} {ended_how(rank.status or 0)} at {rank.seconds:.1f} s" for rank in ranks[:shown]]
    more = f", and {len(ranks) - shown} more" if len(ranks) > shown else ""
    return (f"in this order: {', '.join(words)}{more}",)


def ended_how(status: int) -> str:
    """ "by SIGKILL", "with status 3"."""
    return f"by {named(-status)}" if status < 0 else f"with status {status}"
