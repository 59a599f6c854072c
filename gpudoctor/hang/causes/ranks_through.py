"""Ranks that have come to the end of the program, with status 0, while others still wait for them.

Nobody prints anything of that: the launcher is content, and those that wait do so until their group's time-out, ten or
thirty minutes. Three things show it:

| seen | because |
|---|---|
| a rank that nobody has collected has status 0 | the kernel keeps it for the parent |
| torchrun, accelerate or deepspeed watch their ranks, and one of these is missing | they end all when one fails |
| torchrun waits for other nodes to end (`_exit_barrier`), and has no ranks | it does that after a good end only |
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from gpudoctor.hang.absent import hosts_of_gaps, may_be_unread, minders, minds, waiting_ranks
from gpudoctor.hang.causes import CAUSES, LIKELY, POSSIBLE, SEEN, HangCause, HangJob, Rank, Seen, blame
from gpudoctor.hang.job import Launcher
from gpudoctor.hang.progress import STARTING, progress_of
from gpudoctor.hang.relation import COUNTED, loop_around, source_at
from gpudoctor.hang.starts import starts_of
from gpudoctor.hang.words import process_of, stacks_of, waiting_words, who
from gpudoctor.knowledge.wording import ranges
from gpudoctor.launcher import command_lines as commands
from gpudoctor.sure import less_sure

SETTLED = 5.0
"""Seconds after which a launcher has started all of its ranks, and has seen when one has failed: torchrun looked every
5 s up to torch 2.3, and looks every 0.1 s since."""
NEEDS_ALL = ("init_process_group", "TCPStore")
"""Operations that come to their end when all ranks of the world have called them."""


class Through(NamedTuple):
    """Ranks that have come to their end."""

    ranks: tuple[int, ...]
    why: str
    """How that is known: a phrase after "rank 1 has ended"."""
    seen: tuple[Seen, ...]
    shown: bool
    """Whether there is no other explanation, but for an end in these very seconds."""


def through_ranks(job: HangJob) -> Iterator[HangCause]:
    """Ranks that ended with status 0, and others that wait for them: to begin, or in a collective."""
    progress = progress_of(job)
    waiting = waiting_ranks(progress)
    if progress.gets_on or not waiting:
        return
    through = next((found for found in (_uncollected(job), _at_exit_barrier(job), _minded(job)) if found), None)
    if through is None:
        return
    gone = through.ranks
    evidence = (*through.seen, *stacks_of(waiting))
    ended = f"{who(gone, 'has', 'have')} ended {through.why}; {waiting_words(waiting)}"
    starting = [rank for rank in waiting if rank.place.kind in STARTING]
    # With NCCL others may be further: who has made its group waits in its first collective for those that have not.
    if len(starting) == len(waiting) or any(rank.place.operation in NEEDS_ALL for rank in starting):
        if min(rank.evidence.process.age_seconds for rank in waiting) < SETTLED:
            return
        # Of a group that some ranks make, or of a key, those that have left may have been no part.
        sure = SEEN if all(rank.place.operation in NEEDS_ALL for rank in starting) else LIKELY
        yield blame(
            "rank-divergent-decision",
            sure if through.shown else less_sure(sure),
            gone,
            ended,
            evidence,
            at=starting[0].place.user_frame,
            fix=CAUSES["rank-divergent-decision"].remedy("left"),
            confirm="Look again: a launcher that has only not yet seen a failure ends the others within seconds. "
            "Else the last lines that the rank printed tell why it left.",
            meaning="A rank that leaves with status 0 before it has met the others is no failure to its launcher.",
        )
        return
    context = next(
        filter(loop_around, (source_at(waiting[0], user_frame) for user_frame in waiting[0].place.user_frames)), None
    )
    loop = loop_around(context)
    counted = loop is not None and (loop.kind == "while" or COUNTED.search(loop.text) is not None)
    for cause in ("rank-divergent-decision", "uneven-inputs"):
        likelier = counted is (cause == "rank-divergent-decision")  # a loop that only counts is as long on every rank
        yield blame(
            cause,
            LIKELY if through.shown and likelier else POSSIBLE,
            gone,
            ended,
            evidence,
            at=waiting[0].place.user_frame,
        )


def _uncollected(job: HangJob) -> Through | None:
    """Zombies with status 0, which the kernel tells only to those who might look into the process."""
    processes_told = {(rank.node.host, rank.evidence.process.user_id) for rank in job.ranks if _is_open(rank)}
    dead = [
        rank
        for rank in job.ranks
        if rank.evidence.process.state == "Z"  # else it was alive when its status was read
        and rank.state == "Z"
        and not rank.evidence.process.exit_code
        and (rank.node.host, rank.evidence.process.user_id) in processes_told
    ]
    if not dead:
        return None
    seen = tuple(Seen(f"{process_of(rank)} exit status", "0, not collected") for rank in dead[:8])
    return Through(tuple(sorted(rank.rank for rank in dead)), "with status 0", seen, True)


def _is_open(rank: Rank) -> bool:
    """Whether its own environment could be read: the same permission as for the exit status of another one."""
    return rank.evidence.process.environment_read and rank.state != "Z"


def _minded(job: HangJob) -> Through | None:
    """Ranks without a process below a launcher that ends all when one fails, and has not."""
    gone, hosts = hosts_of_gaps(job)
    launcher = minds(job, hosts) if gone else None
    if launcher is None:
        return None
    text = f"no process has rank {ranges(gone)} of {job.world_size}; {launcher.kind} runs on"
    return Through(
        tuple(gone),
        f"with status 0, for {launcher.kind}, which ends all when one fails, runs on",
        (Seen(f"processes of {launcher.node.host}", text),),
        # else it may be ending the others just now, or looks so seldom that it has not seen a failure yet
        launcher.place.operation == "_invoke_run" and _interval(launcher) <= SETTLED and not may_be_unread(job),
    )


def _interval(launcher: Launcher) -> float:
    """Seconds between two looks of a launcher at its ranks, where it was told."""
    process = launcher.evidence.process
    text = commands.setting(process.command, process.environment, "monitor-interval") or ""
    return float(text) if re.fullmatch(r"\d{1,6}(\.\d{1,6})?", text) else 0.0


def _at_exit_barrier(job: HangJob) -> Through | None:
    """Launchers whose ranks have all ended well, and that wait for those of other nodes."""
    barred = [minder for minder in minders(job) if not minder.ranks and minder.place.operation == "_exit_barrier"]
    if not barred or not job.missing:
        return None
    own = {id(launcher) for launcher in barred}
    here = [start.ranks_here for start in starts_of(job) if start.launcher is not None and id(start.launcher) in own]
    counted = sum(number or 0 for number in here) == len(job.missing) and None not in here
    names = ", ".join(dict.fromkeys(launcher.node.host for launcher in barred))
    seen = tuple(
        Seen(
            f"{launcher.kind} pid {launcher.evidence.process.pid} on {launcher.node.host}",
            "waits for other nodes to end",
        )
        for launcher in barred[:8]
    )
    return Through(job.missing, f"with status 0, on {names}", seen, counted) if counted else None


RULES = (through_ranks,)
