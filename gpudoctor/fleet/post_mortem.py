"""What became of the ranks of a launch on this node: evidence before they are ended, and their states afterwards."""

import os
import signal
import time
from collections.abc import Sequence
from typing import Literal

from gpudoctor.active import Child, signal_name
from gpudoctor.active import Reply as ChildReply
from gpudoctor.fleet import traces
from gpudoctor.fleet.followed import Followed, FollowedRank, length, text
from gpudoctor.fleet.messages import RankState, Torchrun
from gpudoctor.knowledge.pytorch.torchrun_exits import LauncherExit, before_launcher, rank_exits
from gpudoctor.read.process import ProcStat, catches, now, tell, waits_in
from gpudoctor.read.sockets import Tables
from gpudoctor.read.system import System

STACK_SECONDS = 1.0
"""A rank writes its stack within this, from a signal handler that waits for nothing; a stopped one never does."""
SETTLED_LOOKS = 3
FIRST_LOG_BYTES = 256 * 1024
OTHER_LOG_BYTES = 32 * 1024
"""Of the ranks beside the launch's first: a thousand nodes' logs must fit into the head's memory."""
MUTE = frozenset({"T", "t", "D", "Z", "X"})
"""A process in such a state runs no signal handler."""


class LastSight:
    """A rank as it was before anything was ended."""

    def __init__(self, rank: FollowedRank, state: str, waits_in: str, exit_code: int) -> None:
        self.rank = rank
        self.state = state
        self.waits_in = waits_in
        self.exit_code = exit_code
        """Of a zombie, as waitpid gives it."""
        self.seconds_in_phase = time.monotonic() - rank.since
        self.stack: tuple[str, ...] = ()
        self.connecting: tuple[str, ...] = ()


def look(followed: Followed, *, stacks: bool) -> dict[int, LastSight]:
    """Every rank's process state and, with `stacks`, what it was doing; by rank."""
    found: dict[int, LastSight] = {}
    for rank in followed.all():
        process = now(rank.process) if rank.process is not None else None
        state = process.state if process is not None else ("X" if rank.process is not None else "")
        waits = waits_in(rank.pid) if state == "D" else ""
        found[rank.rank] = LastSight(rank, state, waits, process.exit_code if process is not None else 0)
        rank.errors_seen = length(rank.errors)
    if stacks:
        tables = Tables(System())
        for one in found.values():
            one.connecting = tables.unanswered(one.rank.pid) if one.state not in ("", "X", "Z") else ()
        _ask_for_stacks(list(found.values()))
    return found


def _ask_for_stacks(seen: Sequence[LastSight]) -> None:
    waiting = [
        one
        for one in seen
        if one.rank.errors is not None
        and one.rank.process is not None
        and one.state not in MUTE
        and catches(one.rank.pid, signal.SIGUSR1)
        and tell(one.rank.process, signal.SIGUSR1)
    ]
    asked = list(waiting)
    before = {id(one): one.rank.errors_seen for one in waiting}
    settled = dict.fromkeys(before, 0)
    deadline = time.monotonic() + STACK_SECONDS
    while waiting and time.monotonic() < deadline:
        time.sleep(0.01)
        for one in list(waiting):
            size = length(one.rank.errors)
            grown, before[id(one)] = size > before[id(one)], size
            settled[id(one)] = 0 if grown or size == one.rank.errors_seen else settled[id(one)] + 1
            if settled[id(one)] >= SETTLED_LOOKS:  # it has written, and writes no more
                waiting.remove(one)
    for one in asked:
        one.stack = traces.stack(text(one.rank.errors, begin=one.rank.errors_seen))


def look_at_torchrun(process: ProcStat | None, child: Child) -> Torchrun | None:
    """The launcher's state and, where under_doctor.py has it write one, its stack."""
    there = now(process) if process is not None else None
    if process is None or there is None:
        return None
    stack: tuple[str, ...] = ()
    begin = len(child.errors)
    if there.state not in MUTE and catches(process.pid, signal.SIGUSR1):
        tell(process, signal.SIGUSR1)
        deadline, settled, before = time.monotonic() + STACK_SECONDS, 0, begin
        while settled < SETTLED_LOOKS and time.monotonic() < deadline:
            time.sleep(0.01)
            size = len(child.errors)
            settled, before = (settled + 1 if size == before and size > begin else 0), size
        stack = traces.stack(bytes(child.errors[begin:]).decode("utf-8", "replace"))
    connecting = Tables(System()).unanswered(process.pid)
    return Torchrun(pid=process.pid, process_state=there.state, stack=stack, connecting=connecting)


def states(
    followed: Followed, seen: dict[int, LastSight], reply: ChildReply, *, is_head: bool
) -> tuple[RankState, ...]:
    """How every rank of this node ended, when none is left. `seen`: as they were before we ended any."""
    exits = rank_exits(reply.errors)
    ranks = followed.all()
    found = [_state(rank, seen.get(rank.rank), exits.get(rank.local_rank), is_head=is_head) for rank in ranks]
    told = {rank.local_rank for rank in ranks}
    for exit in exits.values():  # of those that ended before their first word
        if exit.local_rank not in told and exit.rank is not None:
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
            found.append(state)
    return tuple(sorted(found, key=lambda state: state.rank))


def _state(rank: FollowedRank, seen: LastSight | None, exit: LauncherExit | None, *, is_head: bool) -> RankState:
    ended: Literal["", "done", "exit", "signal"] = ""
    status = 0
    if rank.finished:
        ended = "done"
    elif exit is not None and exit.pid == rank.pid:
        ended, status = _ending(exit.exitcode)
    elif seen is not None and seen.state == "Z" and seen.exit_code:
        ended, status = _ending(os.waitstatus_to_exitcode(seen.exit_code))
    elif rank.failed:
        ended, status = "exit", 1
    written = text(rank.errors)
    stack = seen.stack if seen is not None else ()
    if not stack and "Fatal Python error" in written:
        stack = traces.stack(written)
    error = rank.failed or ("" if ended in ("", "done") else traces.error(written))
    return RankState(
        rank=rank.rank,
        local_rank=rank.local_rank,
        pid=rank.pid,
        phase=rank.phase,
        seconds_in_phase=round(seen.seconds_in_phase if seen else time.monotonic() - rank.since, 1),
        ended=ended,
        status=status,
        process_state=seen.state if seen is not None else "",
        stack=stack,
        error=error[: traces.KEPT_ERROR_CHARACTERS],
        log=traces.log(text(rank.log), FIRST_LOG_BYTES if is_head and rank.local_rank == 0 else OTHER_LOG_BYTES),
        waits_in=seen.waits_in if seen is not None else "",
        connecting=seen.connecting if seen is not None else (),
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
