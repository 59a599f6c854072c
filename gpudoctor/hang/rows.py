"""Every rank in one line: what it does, in which collective, at which line of the program."""

from msgspec.structs import replace

from gpudoctor.hang.courses import words as collective_words
from gpudoctor.hang.job import HangJob, Rank
from gpudoctor.hang.progress import STOPPED, has_ended, waits
from gpudoctor.hang.recorders import Agreement
from gpudoctor.hang.relation import source_at
from gpudoctor.hang.report import ProgramLine, RankRow, RankStack
from gpudoctor.hang.words import ended_words, where
from gpudoctor.knowledge.places import main_thread
from gpudoctor.snapshot.evidence import Collective, Frame

MOST_STACKS, MOST_FRAMES = 64, 60
LONGEST_LINE = 200

_WAITS = {
    "rendezvous": "waits in rendezvous",
    "communicator init": "waits in {operation}",
    "collective": "waits in {operation}",
    "point-to-point": "waits in {operation}",
    "backward": "waits in backward",
    "cuda sync": "waits for its GPU",
    "store wait": "waits for the store",
}
_AWAY = {
    "backward": "computes in backward",
    "cuda sync": "waits for its GPU",
    "data": "waits for its data loader",
    "storage": "accesses a file",
    "compile": "compiles",
    "input": "waits for input",
    "sleep": "sleeps in user code",
    "exit": "ends",
}


def rows(job: HangJob) -> tuple[RankRow, ...]:
    """A row for each rank that was seen or is missing, by rank. Linear in the number of ranks."""
    current = job.agreement.current if job.agreement is not None else {}
    every = [_row(rank, current.get(rank.rank)) for rank in job.ranks]
    every += [_recorded(number, job.agreement) for number in job.missing]
    return tuple(sorted(every, key=lambda row: row.rank))


def _recorded(number: int, agreement: Agreement | None) -> RankRow:
    """A rank of which no process was seen: as its dump tells, where it left one."""
    if agreement is None or number not in agreement.ranks:
        return RankRow(rank=number, state="missing" if agreement is None or not agreement.stale else "no dump")
    entry = agreement.current.get(number)
    ends = {suspect.rank: suspect.why for suspect in agreement.waits.suspects}
    alone = "nothing is recorded" if agreement.is_empty else "waits in nothing"
    state = _WHERE_CHAINS_END.get(ends.get(number, ""), f"waits in {entry.operation}" if entry else alone)
    return RankRow(rank=number, state=state, collective=_entry(entry))


_WHERE_CHAINS_END = {"away": "away", "stuck": "its GPU stands"}


def _row(rank: Rank, entry: Collective | None) -> RankRow:
    collective = _entry(entry)
    if not collective and rank.place.kind in ("collective", "point-to-point"):
        collective = rank.place.operation
    return RankRow(
        rank=rank.rank,
        host=rank.node.host,
        pid=rank.pid,
        container=rank.evidence.process.container,
        state=state_words(rank),
        collective=collective,
        frame=_line(rank),
    )


def _line(rank: Rank) -> ProgramLine | None:
    """Where it is in the program, with what stands there."""
    line, source = where(rank.place.user_frame), source_at(rank, rank.place.user_frame)
    return replace(line, text=source.text[:LONGEST_LINE]) if line is not None and source is not None else line


def stacks(job: HangJob) -> tuple[RankStack, ...]:
    """The last that was read of each rank's main thread, alike ones together."""
    alike: dict[tuple[Frame, ...], list[int]] = {}
    for rank in job.ranks:
        threads = (main_thread(sample, rank.pid) for sample in reversed(rank.evidence.samples))
        frames = next((thread.frames for thread in threads if thread is not None and thread.frames), ())
        if frames:
            alike.setdefault(frames[:MOST_FRAMES], []).append(rank.rank)
    fewest = sorted(alike.items(), key=lambda stack: (len(stack[1]), stack[1][0]))
    return tuple(RankStack(ranks=tuple(ranks), frames=frames) for frames, ranks in fewest[:MOST_STACKS])


def _entry(entry: Collective | None) -> str:
    return collective_words(entry) if entry is not None else ""


def state_words(rank: Rank) -> str:
    """ "waits in all_reduce", "stopped", "ended by SIGKILL"."""
    if rank.state in STOPPED:
        return {"T": "stopped", "F": "frozen"}.get(rank.state, "held by a debugger")
    if rank.state == "Z":
        return ended_words(rank.evidence.process.exit_code)
    if has_ended(rank):
        return "gone"
    kind = rank.place.kind
    if waits(rank):
        return _WAITS[kind].format(operation=rank.place.operation or "a collective")
    if rank.state == "D":
        return "waits in the kernel (D)"
    if kind in _AWAY:
        return _AWAY[kind]
    if kind == "user code":
        return {True: "runs user code", False: "stands in user code", None: "in user code"}[rank.moved]
    return _without_a_stack(rank)


def _without_a_stack(rank: Rank) -> str:
    """What the kernel tells of a rank whose stack was not read."""
    if not rank.evidence.samples:
        return "not read"
    thread = main_thread(rank.evidence.samples[-1], rank.pid)
    if thread is not None and thread.waits_in and thread.waits_in != "0":
        return f"sleeps in {thread.waits_in}"
    return {True: "runs", False: "stands", None: "not read"}[rank.moved]
