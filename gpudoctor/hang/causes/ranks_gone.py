"""Who cannot take part: ranks that were stopped, that ended, that are missing, and GPUs that are lost."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpudoctor.command import Command
from gpudoctor.hang.absent import hosts_of_gaps, local_gaps, may_be_unread, minds, waiting_ranks
from gpudoctor.hang.causes import CAUSES, LIKELY, POSSIBLE, PROVED, SEEN, HangCause, HangJob, Rank, Seen, blame, command
from gpudoctor.hang.job import Launcher
from gpudoctor.hang.progress import STARTING, STOPPED, progress_of, still_starts
from gpudoctor.hang.words import (
    and_waiting,
    at,
    ended_words,
    on_host,
    process_of,
    ranks_of,
    stacks_of,
    standing_words,
    waiting_words,
    who,
)
from gpudoctor.knowledge.wording import listed, ranges
from gpudoctor.lazy import lazy_re
from gpudoctor.snapshot.evidence import KernelEvent, NodeEvidence, Unread
from gpudoctor.snapshot.holds import IN_KERNEL
from gpudoctor.sure import BEST

SIGTERM = 15
SIGKILL = 9
ASKED_TO_END = (SIGTERM, 2, 1, 24)
"""Also by SIGINT, SIGHUP and, at a limit of CPU time, SIGXCPU."""
MOST_NAMED = 8
OOM_NAME = lazy_re(r"process [0-9]{1,10} \((.{1,15}?)\)(?:,| |$)")
"""Culprits of one kind whose evidence is written out."""


def stopped_ranks(job: HangJob) -> Iterator[HangCause]:
    """State T or t, of the rank or of one of its data loaders; or a debugger's prompt on standard input."""
    known = CAUSES["stopped-rank"]
    waiting = progress_of(job).waiting
    stopped = [rank for rank in job.ranks if rank.state in STOPPED]
    frozen = [rank for rank in stopped if rank.state == "F"]
    if frozen:
        yield _frozen(job, frozen)
        stopped = [rank for rank in stopped if rank not in frozen]
    if stopped:
        traced = all(rank.state == "t" for rank in stopped)
        continues = (on_host(job, rank, command("kill -CONT {:pid}", rank.pid)) for rank in stopped[:MOST_NAMED])
        yield blame(
            "stopped-rank",
            PROVED,  # the kernel says so
            stopped,
            f"{who(stopped, 'is', 'are')} {'held by a debugger (state t)' if traced else 'stopped (state T)'}"
            f"{and_waiting(waiting, stopped)}",
            [
                Seen(f"{process_of(rank)} /proc/{rank.pid}/stat", f"state {rank.state}{at(rank.place.user_frame)}")
                for rank in stopped[:MOST_NAMED]
            ],
            at=stopped[0].place.user_frame,
            fix=known.remedy("traced") if traced else known.remedy("signal", *continues),
        )
    if progress_of(job).verdict == "moves":
        return  # nobody waits for what is asked or stopped there
    for rank in job.ranks:
        for loader in (
            data_loader
            for data_loader in rank.data_loaders
            if rank.place.kind == "data" and data_loader.state in STOPPED
        ):
            pid = loader.process.pid
            yield blame(
                "stopped-rank",
                PROVED,  # and the rank's stack stands in the wait for its loaders
                [rank],
                f"a data loader process (pid {pid}) of rank {rank.rank} is stopped, and the rank waits for it"
                f"{at(rank.place.user_frame)}",
                [Seen(f"data loader pid {pid} of rank {rank.rank}", f"state {loader.state}")],
                at=rank.place.user_frame,
                fix=known.remedy("signal", on_host(job, rank, command("kill -CONT {:pid}", pid))),
            )
            break
    asks = [rank for rank in job.ranks if rank.place.kind == "input" and rank.moved is not True]
    if asks:
        yield blame(
            "stopped-rank",
            PROVED,  # the stack, or the system call, reads the terminal
            asks,
            f"{who(asks, 'waits', 'wait')} for input{at(asks[0].place.user_frame)}{and_waiting(waiting, asks)}",
            stacks_of(asks),
            at=asks[0].place.user_frame,
            fix=known.remedy("input"),
        )
    for launcher in job.launchers:
        if launcher.evidence.state in STOPPED:
            yield _stopped_launcher(launcher)


def _frozen(job: HangJob, frozen: Sequence[Rank]) -> HangCause:
    by_place = {(rank.node.host, rank.evidence.frozen): rank for rank in reversed(frozen)}
    thaws = (on_host(job, rank, _thaw(rank.evidence.frozen)) for rank in [*reversed(by_place.values())][:MOST_NAMED])
    return blame(
        "stopped-rank",
        PROVED,  # the kernel says so
        frozen,
        f"the cgroup of {ranks_of(frozen)} is frozen{and_waiting(progress_of(job).waiting, frozen)}",
        [Seen(f"{process_of(rank)} {rank.evidence.frozen}", "frozen") for rank in frozen[:MOST_NAMED]],
        at=frozen[0].place.user_frame,
        fix=CAUSES["stopped-rank"].remedy("frozen", *thaws),
    )


def _thaw(file: str) -> Command:
    return command("echo {:value} | sudo tee {:path}", "THAWED" if file.endswith("/freezer.state") else 0, file)


def _stopped_launcher(launcher: Launcher) -> HangCause:
    pid, frozen = launcher.evidence.process.pid, launcher.evidence.frozen
    bare = not launcher.ranks
    known = CAUSES["stopped-rank"]
    return blame(
        "stopped-rank",
        PROVED if bare else POSSIBLE,  # ranks that run need it only when one of them ends
        launcher.ranks,
        f"{launcher.kind} (pid {pid} on {launcher.node.host}) is {'frozen' if frozen else 'stopped'}"
        + (", and has no ranks yet" if bare else "; its ranks run on without it"),
        [Seen(f"{launcher.kind} pid {pid} on {launcher.node.host}", f"state {launcher.evidence.state}")],
        fix=known.remedy("frozen", _thaw(frozen))
        if frozen
        else known.remedy("signal", command("kill -CONT {:pid}", pid)),
    )


# ---------------------------------------------------------------- ended and missing


def died_ranks(job: HangJob) -> Iterator[HangCause]:
    """Ranks that ended otherwise than with status 0 and were not collected, and those that their own node lacks."""
    progress = progress_of(job)
    failed = [rank for rank in progress.ended if rank.evidence.process.exit_code]
    first = [rank for rank in failed if rank.evidence.process.exit_code & 0x7F != SIGTERM] or failed
    if first:
        yield _failed(job, first)
        return
    vanished = [rank for rank in progress.ended if rank.state != "Z"]
    alive = [*progress.waiting, *progress.away, *progress.stopped]
    if vanished and alive:
        yield blame(
            "rank-died",
            LIKELY,  # the others may be ending too
            vanished,
            f"{ranks_of(vanished)} ended while the job was looked at{and_waiting(progress.waiting, vanished)}",
            [Seen(process_of(rank), "was gone when it was to be read") for rank in vanished[:MOST_NAMED]],
            confirm="Look again: when the other ranks are gone too, the job has come to its end by itself.",
        )
    if progress.gets_on:
        return
    if waiting := waiting_ranks(progress):
        yield from _missing(job, waiting)
    elif progress.away:
        yield from _missing(job, progress.away, waits=False)


def _failed(job: HangJob, failed: Sequence[Rank]) -> HangCause:
    evidence: list[Seen] = []
    for_memory = False
    for rank in failed:
        process = rank.evidence.process
        event = _kernel_event(rank.node, process.pid)
        if len(evidence) < MOST_NAMED:
            evidence.append(Seen(f"{process_of(rank)} exit status", ended_words(process.exit_code)))
            if event is not None:
                evidence.append(Seen(f"kernel log of {rank.node.host}", event.text))
        for_memory |= event is not None and event.kind == "oom"
    most = Counter(rank.evidence.process.exit_code for rank in failed).most_common(1)[0][0]
    ending = _ending(most, for_memory, failed[0].evidence.oom_kills)
    uncollected = ", and nobody has collected it" if any(rank.state == "Z" for rank in failed) else ""
    return blame(
        "rank-died",
        PROVED,  # its exit status
        failed,
        f"{who(failed, ending.one, ending.several)} {ending.how}{uncollected}"
        f"{and_waiting(progress_of(job).waiting, failed)}",
        [*evidence, *stacks_of([rank for rank in failed if rank.place.kind != "unknown"])],
        fix=CAUSES["rank-died"].remedy(ending.variant),
        meaning=ending.meaning,
    )


class _Ending(NamedTuple):
    """What an exit status says."""

    variant: str
    """Of the fix."""
    one: str
    several: str
    how: str
    meaning: str = ""


def _ending(status: int, for_memory: bool, oom_kills: int | None) -> _Ending:
    """Of a status as waitpid(2) gives it. `oom_kills`: processes that the kernel's OOM killer has ended there, whoever
    they were."""
    number = status & 0x7F
    how = ended_words(status).removeprefix("ended ")
    if for_memory:
        meaning = "The node ran out of memory, or the rank's cgroup did."
        return _Ending("memory", "was killed", "were killed", f"{how}, for memory", meaning)
    if number == SIGKILL:
        meaning = "No process can keep from SIGKILL, and it says nothing. " + (
            "The kernel's OOM killer ended none there, so a person, a scheduler or a container's runtime sent it."
            if oom_kills == 0
            else "The OOM killer, a scheduler, a container's runtime or a person sends it."
        )
        how += ", perhaps for memory" if oom_kills else ""
        return _Ending("killed" if oom_kills == 0 else "sigkill", "was killed", "were killed", how, meaning)
    if number in ASKED_TO_END:
        meaning = "It was asked to end, by a scheduler (time limit, preemption) or a person."
        return _Ending("asked to end", "was ended", "were ended", how, meaning)
    if number:
        meaning = "A library or driver failed in it; Python raises no exception for that."
        return _Ending("crashed", "crashed", "crashed", how.replace("by", "with", 1), meaning)
    return _Ending("", "has ended", "have ended", how)


def _kernel_event(node: NodeEvidence, pid: int) -> KernelEvent | None:
    return next((event for event in node.kernel if event.pid == pid and event.kind in ("oom", "segfault")), None)


def _in_kernel(gone: Sequence[int], waiting: Sequence[Rank], held: Sequence[Unread]) -> HangCause:
    """A rank that is missing, and a process of its user that cannot be asked for what it is."""
    pids = [str(unread.pid) for unread in held[:MOST_NAMED]]
    waits = f"pid {pids[0]} waits" if len(pids) == 1 else f"pids {listed(pids)} wait"
    return blame(
        "kernel-wait",
        LIKELY,
        gone,
        f"{who(gone, 'has', 'have')} no process that can be asked; {waits} in the kernel (state D), and may be "
        f"{'it' if len(gone) == 1 else 'they'}; {waiting_words(waiting)}",
        [Seen(unread.what, unread.reason) for unread in held[:MOST_NAMED]],
    )


def _missing(job: HangJob, waiting: Sequence[Rank], *, waits: bool = True) -> Iterator[HangCause]:
    """Ranks that no process is seen of, where it is known that they belong on a node that was read."""
    gone, hosts = hosts_of_gaps(job)
    if not gone or minds(job, hosts) is not None or still_starts(job):
        return  # what a launcher that ends all has not ended came to its end: ranks_through.py
    closed = [(rank, number) for rank in waiting if (number := _closed(rank))]
    known = {process.process.pid for node in job.nodes for process in node.processes}
    events = [
        (node, event)
        for node in job.nodes
        for event in node.kernel
        if event.kind == "oom" and event.pid not in known and _may_be_one_of(waiting, event)
    ]
    evidence = [Seen("processes of " + listed(hosts), f"no process has rank {ranges(gone)} of {job.world_size}")]
    evidence += [
        Seen(f"{process_of(rank)} sockets", f"{number} in CLOSE_WAIT: the other end has closed")
        for rank, number in closed[:MOST_NAMED]
    ]
    evidence += [Seen(f"kernel log of {node.host}", event.text) for node, event in events[:MOST_NAMED]]
    kills = max((rank.evidence.oom_kills or 0 for rank in waiting), default=0)
    if kills:
        evidence.append(Seen(f"{process_of(waiting[0])} memory.events", f"oom_kill {kills}"))
    shown = bool(closed or events or local_gaps(job))
    if not waits:  # they compute, and will wait, unless the others have come to their end
        sure = POSSIBLE
    elif not progress_of(job).waiting:  # they only sleep, and may do so by themselves
        sure = LIKELY if not shown or any(rank.place.kind == "unknown" for rank in waiting) else SEEN
    elif all(rank.place.kind in STARTING for rank in waiting) and not events:
        sure = LIKELY  # it may not have been started yet
    else:  # its node lacks it, its connections are closed, or the kernel has killed somebody
        sure = PROVED if shown else SEEN
    unseen = () if closed or events else may_be_unread(job)
    if unseen and (held := [unread for unread in unseen if unread.reason == IN_KERNEL]):
        yield _in_kernel(gone, waiting, held)
        return
    yield blame(
        "rank-died",
        min(sure, BEST) if unseen else sure,
        gone,
        f"{who(gone, 'has', 'have')} no process any more{', killed for memory' if events else ''}; "
        f"{waiting_words(waiting) if waits else standing_words(waiting)}",
        evidence,
        fix=CAUSES["rank-died"].remedy("memory" if events else ""),
    )


def _may_be_one_of(others: Sequence[Rank], event: KernelEvent) -> bool:
    """Whether what the OOM killer has ended is called as these ranks are, and was ended since they run."""
    name = OOM_NAME.search(event.text)
    names = {rank.evidence.process.name for rank in others} - {""}
    age = max((rank.evidence.process.age_seconds for rank in others), default=0.0)
    is_later = not age or event.seconds_ago is None or event.seconds_ago <= age
    return is_later and (name is None or not names or name[1] in names)


def _closed(rank: Rank) -> int:
    return sum(socket.state == "CLOSE_WAIT" for socket in rank.evidence.sockets)


# ---------------------------------------------------------------- GPUs


def lost_gpus(job: HangJob) -> Iterator[HangCause]:
    """An Xid in the kernel log since the job began, or a GPU that does not answer any more. An Xid of a process that is
    not seen may be another job's; where a rank is missing, it may have been that rank's."""
    for node in job.nodes:
        here = [rank for rank in job.ranks if rank.node is node]
        since = max((rank.evidence.process.age_seconds for rank in here), default=0.0)
        lost = [gpu for gpu in node.gpus if gpu.lost]
        ours = {process.process.pid for process in node.processes}
        events = [
            event
            for event in node.kernel
            if event.kind == "xid" and (event.seconds_ago is None or event.seconds_ago <= since + 1)
            if not event.pid or event.pid in ours or job.missing
        ]
        if not lost and not events:
            continue
        dated = any(event.seconds_ago is not None and event.pid in {0, *ours} for event in events)
        pids = {event.pid for event in events if event.pid}
        evidence = [Seen(f"NVML on {node.host}", f"GPU {gpu.index}: {gpu.lost}") for gpu in lost]
        evidence += [Seen(f"kernel log of {node.host}", event.text) for event in events]
        yield blame(
            "xid-gpu-lost",
            # NVML itself has lost it; an Xid since the job began; one of any time
            PROVED if lost else SEEN if dated else POSSIBLE,
            [rank for rank in here if rank.pid in pids] or here,
            f"GPU {ranges([gpu.index for gpu in lost])} of {node.host} does not answer"
            if lost
            else f"the driver reported {events[0].text[:100]} on {node.host}",
            evidence[:MOST_NAMED],
        )


RULES = (stopped_ranks, died_ranks, lost_gpus)
