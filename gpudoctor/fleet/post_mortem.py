"""What became of the ranks of a launch on this node: evidence before they are ended, and their states afterwards."""

import os
import time
from collections.abc import Sequence
from typing import Literal, NamedTuple

from msgspec import structs

from gpudoctor.active import ChildReply as ChildReply, signal_name
from gpudoctor.fleet import traces
from gpudoctor.fleet.followed import Followed, FollowedRank, text
from gpudoctor.fleet.messages import Launch, RankState
from gpudoctor.knowledge.pytorch.torchrun_exits import LauncherExit, before_launcher, rank_exits
from gpudoctor.read.job.wanted import Wanted
from gpudoctor.read.process import ProcStat, now
from gpudoctor.snapshot.evidence import NodeEvidence, Process, ProcessEvidence, Sample, Thread, Unread

BETWEEN_LOOKS_SECONDS = 0.5
LOOK_SECONDS = 3.0
"""All that is read of the processes is read within this."""
FIRST_LOG_BYTES = 256 * 1024
OTHER_LOG_BYTES = 32 * 1024
"""Of the ranks beside the launch's first: a thousand nodes' logs must fit into the head's memory."""
EVIDENCE_BYTES = 1024 * 1024
"""For the same reason: where a node's evidence is longer, threads that run no Python are left out."""


class LastSight(NamedTuple):
    """A rank as it was before anything was ended."""

    exit_code: int
    """Of a zombie, as waitpid gives it; else 0."""
    seconds_in_phase: float


def last_sights(followed: Followed) -> dict[int, LastSight]:
    """By rank."""
    sights: dict[int, LastSight] = {}
    for rank in followed.all():
        process = now(rank.process) if rank.process is not None else None
        code = process.exit_code if process is not None and process.state == "Z" else 0
        sights[rank.rank] = LastSight(code, time.monotonic() - rank.since)
    return sights


def look(launch: Launch, node: int, followed: Followed, torchrun: ProcStat | None) -> NodeEvidence:
    """The ranks and their launcher, read as `gpudoctor hang` reads a job."""
    from gpudoctor.read.job import node as reader

    own = [rank for rank in followed.all() if rank.process is not None]
    processes = [*followed.processes(), *([torchrun] if torchrun is not None else ())]
    # Of other nodes it counts only that they have ranks (NCCL's RAS is asked once a job).
    firsts = {str(other): {"0": sum(launch.ranks_per_node[:at])} for at, other in enumerate(launch.nodes)}
    wanted = Wanted(
        pids={str(node): tuple((process.pid, process.start_ticks) for process in processes)},
        ranks={**firsts, str(node): {str(rank.pid): rank.rank for rank in own}},
        seconds=BETWEEN_LOOKS_SECONDS,
        ports=(launch.master_port,),
        addresses=(launch.master_address,),
        timeout=LOOK_SECONDS,
    )
    try:
        return reader.begin(wanted, node)()
    except Exception as error:  # the launch is ended all the same
        return NodeEvidence(unread=(Unread("the processes of this launch", f"{type(error).__name__}: {error}"[:200]),))


def encoded(evidence: NodeEvidence | None) -> bytes:
    """As it is sent."""
    from gpudoctor.read.job import thinned

    return b"null" if evidence is None else thinned.encoded(evidence, EVIDENCE_BYTES)


def with_the_dead(
    evidence: NodeEvidence | None, followed: Followed, states: Sequence[RankState], oom_kills: int | None
) -> NodeEvidence | None:
    """The evidence with what is known of ranks that a signal has ended: the number, and what a crash has written.

    `oom_kills`: processes of this machine that the kernel's OOM killer ended meanwhile; None: not readable.
    """
    dead = [state for state in states if state.ended == "signal" and state.pid]
    if not dead:
        return evidence
    seen = evidence or NodeEvidence()
    errors = {rank.rank: rank.errors for rank in followed.all()}
    processes = {process.pid: process for process in seen.processes}
    for state in dead:
        known = processes[state.pid].process if state.pid in processes else Process(pid=state.pid, parent=0, started=0)
        written = text(errors.get(state.rank))
        frames = traces.stack(written) if "Fatal Python error" in written else ()
        main = Thread(id=state.pid, name="MainThread", frames=frames)
        processes[state.pid] = ProcessEvidence(
            process=structs.replace(known, state="X", exit_code=state.status),
            samples=(Sample(at=0.0, state="X", threads=(main,), stacks_by="faulthandler"),) if frames else (),
            oom_kills=oom_kills,
        )
    return structs.replace(seen, processes=tuple(processes.values()))


def states(
    followed: Followed, seen: dict[int, LastSight], reply: ChildReply, *, is_head: bool
) -> tuple[RankState, ...]:
    """How every rank of this node ended, when none is left. `seen`: as they were before we ended any."""
    exits = rank_exits(reply.errors)
    ranks = followed.all()
    rank_states = [_state(rank, seen.get(rank.rank), exits.get(rank.local_rank), is_head=is_head) for rank in ranks]
    local_ranks = {rank.local_rank for rank in ranks}
    for exit in exits.values():  # of those that ended before their first word
        if exit.local_rank not in local_ranks and exit.rank is not None:
            ended, status = _ending(exit.exitcode)
            words = traces.error(before_launcher(reply.errors))
            state = RankState(
                rank=exit.rank,
                local_rank=exit.local_rank or 0,
                pid=exit.pid or 0,
                ended=ended,
                status=status,
                error=words,
            )
            rank_states.append(state)
    return tuple(sorted(rank_states, key=lambda state: state.rank))


def _state(rank: FollowedRank, seen: LastSight | None, exit: LauncherExit | None, *, is_head: bool) -> RankState:
    ended: Literal["", "done", "exit", "signal"] = ""
    status = 0
    if rank.finished:
        ended = "done"
    elif exit is not None and exit.pid == rank.pid:
        ended, status = _ending(exit.exitcode)
    elif seen is not None and seen.exit_code:
        ended, status = _ending(os.waitstatus_to_exitcode(seen.exit_code))
    elif rank.failed:
        ended, status = "exit", 1
    error = rank.failed or ("" if ended in ("", "done") else traces.error(text(rank.errors)))
    return RankState(
        rank=rank.rank,
        local_rank=rank.local_rank,
        pid=rank.pid,
        phase=rank.phase,
        seconds_in_phase=round(seen.seconds_in_phase if seen else time.monotonic() - rank.since, 1),
        ended=ended,
        status=status,
        error=error[: traces.KEPT_ERROR_CHARACTERS],
        log=traces.log(text(rank.log), FIRST_LOG_BYTES if is_head and rank.local_rank == 0 else OTHER_LOG_BYTES),
    )


def _ending(code: int | None) -> tuple[Literal["exit", "signal"], int]:
    return ("signal", -code) if code is not None and code < 0 else ("exit", code or 0)


def launcher_error(reply: ChildReply, ranks: Sequence[RankState]) -> str:
    """Why torchrun failed, where that is more than that its ranks did."""
    if reply.return_code is None or reply.return_code == 0:
        return ""
    if reply.return_code < 0:
        return f"torchrun was ended by {signal_name(-reply.return_code)}"
    if any(rank.ended in ("exit", "signal") for rank in ranks):
        return ""
    return traces.error(reply.errors) or f"torchrun ended with exit status {reply.return_code} and said nothing"
