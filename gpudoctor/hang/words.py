"""How ranks, places and fixes are written in what is concluded."""

import signal
from collections.abc import Iterable, Sequence

from gpudoctor.causes import CAUSES
from gpudoctor.check import Fix
from gpudoctor.command import Command, command, over_ssh
from gpudoctor.hang.courses import words as collective_words
from gpudoctor.hang.job import HangJob, Rank
from gpudoctor.hang.report import HangCause, ProgramLine, Seen
from gpudoctor.knowledge.place_markers import is_program
from gpudoctor.knowledge.places import Place, main_thread
from gpudoctor.knowledge.wording import ranges
from gpudoctor.snapshot.evidence import Collective, Enclosing, Frame, SourceContext
from gpudoctor.sure import CERTAIN

MOST_STACKS = 4
"""Places in the program at which ranks stand that are written out as evidence of one party."""


def numbers_of(ranks: Iterable[Rank | int]) -> tuple[int, ...]:
    return tuple(sorted({rank if isinstance(rank, int) else rank.rank for rank in ranks}))


def ranks_of(ranks: Iterable[Rank | int]) -> str:
    """ "rank 1", "ranks 0,2-7"."""
    numbers = numbers_of(ranks)
    return f"{'rank' if len(numbers) == 1 else 'ranks'} {ranges(numbers)}"


def who(ranks: Sequence[Rank | int], one: str, several: str) -> str:
    """ "rank 1 waits", "ranks 0,2-7 wait"."""
    return f"{ranks_of(ranks)} {verb(ranks, one, several)}"


def without(ranks: Iterable[Rank], left_out: Iterable[Rank]) -> list[Rank]:
    """Ranks less some of them, told apart by identity: two processes may claim one number."""
    own = {id(rank) for rank in left_out}
    return [rank for rank in ranks if id(rank) not in own]


def verb(ranks: Sequence[object], one: str, several: str) -> str:
    """ "waits" of one rank, "wait" of several."""
    return one if len(ranks) == 1 else several


def line_of(frame: Frame | None) -> str:
    """ "train.py:41"; empty where no frame of the user's program is known."""
    return f"{frame.file.rpartition('/')[2]}:{frame.line}" if frame is not None else ""


def at(frame: Frame | None) -> str:
    """ " at train.py:41", to be appended."""
    return f" at {line_of(frame)}" if frame is not None else ""


def where(frame: Frame | None) -> ProgramLine | None:
    return ProgramLine(frame.file, frame.line, frame.function) if frame is not None else None


def where_line(context: SourceContext, statement: Enclosing, *ranks: Rank) -> ProgramLine | None:
    """A statement of the function around a frame; where that is a framework's, the line of the program from which one
    of `ranks` has called it, else where the last of them stands."""
    if not ranks or is_program(context.file):
        return ProgramLine(context.file, statement.line, context.function)
    for rank in ranks:
        thread = main_thread(rank.evidence.samples[-1], rank.thread) if rank.evidence.samples else None
        frames = thread.frames if thread is not None else ()
        within = next((at for at, frame in enumerate(frames) if frame.file == context.file), len(frames))
        for frame in frames[within:]:
            if frame in rank.place.user_frames:
                return where(frame)
    return where(ranks[-1].place.user_frame)


_SELF = {
    "rendezvous": "in the rendezvous",
    "communicator init": "in the start of a process group",
    "backward": "in backward",
    "cuda sync": "in a wait for its GPU",
    "data": "in a wait for its data loader",
    "storage": "in file access",
    "compile": "in compilation",
    "input": "in a read of its standard input",
    "sleep": "in a sleep",
    "exit": "on its way out",
    "store wait": "in a wait for the store",
    "user code": "in the program's own code",
    "unknown": "somewhere that was not read",
}


def place_words(place: Place) -> str:
    """ "in all_reduce at train.py:41", "in the program's own code at train.py:52"."""
    if place.kind in ("collective", "point-to-point"):
        name = f"in {place.operation or 'a collective'}"
    elif place.kind in ("sleep", "exit", "communicator init", "store wait") and place.operation:
        name = f"in {place.operation}"
    else:
        name = _SELF[place.kind]
    return name + at(place.user_frame)


def stack_of(rank: Rank, note: str = "") -> Seen:
    """Where a rank stands, as a line of evidence."""
    samples = rank.evidence.samples
    by = samples[-1].stacks_by if samples else ""
    lines = " < ".join(f"{frame.function} ({line_of(frame)})" for frame in rank.place.user_frames[:4])
    text = place_words(rank.place) + (f"; {lines}" if lines else "") + (f"; {note}" if note else "")
    return Seen(f"{process_of(rank)} {by or 'state'}", text)


def stacks_of(ranks: Sequence[Rank], note: str = "") -> tuple[Seen, ...]:
    """Where ranks stand, those that stand alike in one line; the first `MOST_STACKS` places."""
    alike: dict[tuple[str, str], list[Rank]] = {}
    for rank in ranks:
        seen = stack_of(rank, note)
        alike.setdefault((seen.text, seen.source.removeprefix(process_of(rank))), []).append(rank)
    return tuple(
        Seen((process_of(group[0]) if len(group) == 1 else _several(group)) + by, text)
        for (text, by), group in list(alike.items())[:MOST_STACKS]
    )


def _several(ranks: Sequence[Rank]) -> str:
    """ "ranks 1-7 on 2 hosts"."""
    hosts = {rank.node.host for rank in ranks}
    return (
        ranks_of(ranks)
        if not ranks[0].pid
        else f"{ranks_of(ranks)} on {next(iter(hosts)) if len(hosts) == 1 else f'{len(hosts)} hosts'}"
    )


def process_of(rank: Rank) -> str:
    """ "rank 3 pid 4711 on node-b"; of one whose process is gone "rank 3"."""
    return f"rank {rank.rank}" if not rank.pid else f"rank {rank.rank} pid {rank.pid} on {rank.node.host}"


def waiting_words(ranks: Sequence[Rank]) -> str:
    """ "ranks 0,2-7 wait in all_reduce at train.py:41"; those at several places are only counted."""
    places = {(rank.place.kind, rank.place.operation, rank.place.user_frame) for rank in ranks}
    names = who(ranks, "waits", "wait")
    return f"{names} {place_words(ranks[0].place)}" if len(places) == 1 else f"{names} at {len(places)} places"


def and_waiting(ranks: Sequence[Rank], but: Iterable[Rank] = ()) -> str:
    """ "; ranks 0,2-7 wait in all_reduce at train.py:41", to be appended; "" where nobody does."""
    waiting = without(ranks, but)
    return f"; {waiting_words(waiting)}" if waiting else ""


def standing_words(ranks: Sequence[Rank]) -> str:
    """ "rank 1 is in a sleep at train.py:52", of ranks at one place."""
    return f"{who(ranks, 'is', 'are')} {place_words(ranks[0].place)}"


def statement_seen(context: SourceContext, statement: Enclosing) -> Seen:
    """A statement of the program around a frame, as a line of evidence."""
    return Seen(f"{context.file}:{statement.line}", f"{statement.kind} {statement.text}".rstrip())


def entry_words(entry: Collective) -> str:
    """ "all_reduce #12 float32[1024] in group 0 at train.py:41"."""
    return collective_words(entry) + (at(entry.frames[0]) if entry.frames else "")


def blame(
    cause: str,
    sure: float,
    ranks: Iterable[Rank | int],
    summary: str,
    evidence: Iterable[Seen],
    *,
    at: Frame | ProgramLine | None = None,
    fix: Fix | None = None,
    confirm: str = "",
    meaning: str = "",
) -> HangCause:
    """A cause as it shows itself here. Its fix and the test that decides are those of its file, or say more of this
    job (`Cause.remedy`); no test is needed where it is certain."""
    known = CAUSES[cause]
    return HangCause(
        cause=cause,
        confidence=sure,
        ranks=numbers_of(ranks),
        where=where(at) if isinstance(at, Frame) else at,
        evidence=tuple(evidence),
        summary=summary,
        meaning=f"{meaning} {known.meaning}".lstrip(),
        fix=fix or known.remedy(),
        confirm="" if sure >= CERTAIN else confirm or known.confirm,
    )


def ended_words(status: int) -> str:
    """ "ended by SIGKILL", "ended with status 1", of a status as waitpid(2) gives it."""
    number = status & 0x7F
    if number:
        try:
            return f"ended by {signal.Signals(number).name}"
        except ValueError:
            return f"ended by signal {number}"
    return f"ended with status {status >> 8}"


def on_host(job: HangJob, rank: Rank, line: Command) -> Command:
    """A line to paste, for the host where the rank is."""
    several = len({node.host for node in job.nodes}) > 1
    return over_ssh(command("{:host}", rank.node.host), line) if several else line


def still_in(stays: Sequence[Rank], left: Sequence[Rank], loop: Enclosing | None) -> str:
    """Of ranks in a loop that most are through with."""
    at_line = f" at line {loop.line}" if loop is not None else ""
    operation = stays[0].place.operation or "a collective"
    return (
        f"{who(stays, 'is', 'are')} still in the loop{at_line}, and {verb(stays, 'waits', 'wait')} in {operation}"
        f"{at(stays[0].place.user_frame)}; the others are through with it, {standing_words(left)}"
    )
