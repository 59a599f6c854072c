"""What the user's program says of where ranks waited, where it can be read: a door, for logs are read without it.

A watchdog names the lines from which the collective that did not end was called. Whether such a line stands below a
condition on the rank, or behind the loop that others are in, only the program tells; `gpudoctor hang` reads it of jobs
that live, and whoever asks `explain` on the machine of the job hands over how (`gpudoctor/left.py`).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from msgspec import structs

from gpudoctor.explain.absent import idle_ranks, missing, silent
from gpudoctor.explain.candidate import Candidate
from gpudoctor.explain.deaths import ended_well, ranks_text
from gpudoctor.explain.order import Facts
from gpudoctor.explain.report import Line
from gpudoctor.explain.rounds import rounds_between
from gpudoctor.explain.scan import ToldTraceback
from gpudoctor.explain.stacks import StackFrame
from gpudoctor.explain.waits import DEFAULT_GROUP, MOST_LINES, Wait, said
from gpudoctor.knowledge.on_the_way import OnTheWay
from gpudoctor.sure import LIKELY, POSSIBLE

SEVERAL = (
    "Without its flight recorder torch tells no line; of the program's calls several fit, and only this explains it"
)
GRADIENTS = ("unused-parameters", "rank-dependent-graph")
"""Of what hooks have started a log names no line; whether the same step is meant, the ranks' own lines tell."""


class Stood(NamedTuple):
    """Where a rank waited."""

    operation: str
    """Of torch.distributed, as the program calls it; "" where hooks of DDP or FSDP have started it."""
    frames: tuple[StackFrame, ...]
    """Of the user's program, innermost first."""
    in_backward: bool = False
    """A hook has started it in the backward pass that the innermost of these lines calls."""


class OpenCall(NamedTuple):
    """What a rank had open when its time was up."""

    sequence: int
    elements: int | None


class OfProgram(NamedTuple):
    cause: str
    confidence: float
    ranks: tuple[int, ...]
    summary: str


class UserProgram(Protocol):
    """What is asked of the user's program."""

    def __call__(self, stood: Mapping[int, Stood], world_size: int) -> Sequence[OfProgram]:
        """By rank where it waited, and the number of ranks -> what the program says of it, best first."""

    def recorded(self, opened: Mapping[int, OpenCall], world_size: int) -> Sequence[OfProgram]:
        """The same of flight recorders that were written when the time was up, where those of this job are found."""

    def ways(self, program: str, said: Sequence[str], operation: str, elements: int | None) -> Sequence[Stood]:
        """Where a rank may wait that is in an operation, "allreduce", of so many elements, by a program's file alone;
        () where that does not tell all of them. `said`: the last lines of ranks."""

    def between(self, said: str, stood: Stood, further: int) -> OnTheWay | None:
        """A rank's last line, where one of those waited that it did not come to, and by how many rounds that one was
        further than the line."""


def by_program(waits: Sequence[Wait], facts: Facts, program: UserProgram | None) -> list[Candidate]:
    """Causes that the program shows; of ranks in one group, and where a line of it was named."""
    if program is None or not any(wait.frames for wait in waits):
        return []
    if not facts.stacks and not all(wait.frames or wait.in_backward or wait.function for wait in waits):
        return []  # without a recorder, one of which no line is told need not be in a backward pass
    if any(wait.group not in ("", DEFAULT_GROUP) for wait in waits):
        return []
    stood = {wait.rank: Stood(wait.function, wait.frames, wait.in_backward and not wait.function) for wait in waits}
    causes = program(stood, _world_size(facts))
    if not _in_one_round(waits, facts):
        causes = [
            each._replace(confidence=min(each.confidence, POSSIBLE)) if each.cause in GRADIENTS else each
            for each in causes
        ]
    return _candidates(causes, waits)


def agreed(choices: Sequence[Sequence[Wait]], facts: Facts, program: UserProgram | None) -> list[Candidate]:
    """What the program shows of ranks that may wait in several lines, where every choice of these that tells a cause
    tells the same one."""
    told = [found[0] for waits in choices if len(choices) > 1 and (found := by_program(waits, facts, program))]
    sure = [each for each in told if each.confidence >= LIKELY]
    if len({(each.cause, each.ranks) for each in sure}) != 1:
        return []
    summary = f"{sure[0].summary}. {SEVERAL}"
    return [structs.replace(sure[0], confidence=LIKELY, summary=summary)]


def _in_one_round(waits: Sequence[Wait], facts: Facts) -> bool:
    first, *others = (wait.rank for wait in waits)
    return bool(others) and all(rounds_between(first, each, facts) == 0 for each in others)


def by_recorders(waits: Sequence[Wait], facts: Facts, program: UserProgram | None) -> list[Candidate]:
    """Causes that the flight recorders show which the ranks have written when their time was up."""
    opened = {wait.rank: OpenCall(wait.sequence, wait.elements) for wait in waits if wait.sequence is not None}
    if program is None or not opened:
        return []
    return _candidates(program.recorded(opened, _world_size(facts)), waits)


def _world_size(facts: Facts) -> int:
    return facts.world_size or max(facts.ranks, default=-1) + 1


def _candidates(causes: Sequence[OfProgram], waits: Sequence[Wait]) -> list[Candidate]:
    first = min(waits, key=lambda wait: wait.moment.line)
    return [
        Candidate(
            cause=cause.cause,
            confidence=cause.confidence,
            standing="pattern",
            moment=first.moment,
            summary=cause.summary,
            ranks=cause.ranks,
            evidence=tuple(dict.fromkeys(wait.line for wait in waits))[:MOST_LINES],
        )
        for cause in causes
    ]


def on_the_way(waits: Sequence[Wait], facts: Facts, program: UserProgram | None, died: set[int]) -> list[Candidate]:
    """Of the one rank that did not come: what lies between its last words and the line where the others waited."""
    placed = [wait for wait in waits if wait.frames or wait.backward]
    absent = missing(facts, {wait.rank for wait in waits})
    if program is None or not placed or len(absent) != 1 or absent & died:
        return []
    if silent(facts, absent) and not ended_well(facts, absent):
        return []  # it has died, or is stopped: no call of its program keeps it
    (rank,) = absent
    first = placed[0]
    last = facts.said_last.get(rank)
    if last is None or any(wait.where != first.where for wait in waits) or _raised_since(rank, last, facts):
        return []
    stood, further = (
        Stood(first.function, first.frames or first.backward, first.in_backward),
        rounds_between(rank, first.rank, facts),
    )
    if further is None and program.between(last.text, stood, 1) is not None:
        return []  # both lines stand in one loop, and of which rounds they are is not known
    passed = program.between(last.text, stood, further or 0)
    if passed is None or not (passed.calls or (passed.computes_at and rank in idle_ranks(facts))):
        return []
    summary = (
        f"{ranks_text([wait.rank for wait in waits])} waited in {said(first)}, and rank {rank} did not come. Its last "
        f'words are "{last.text[:MOST_QUOTED]}", of line {passed.said_at}; from there on the program {passed.words}'
    )
    certain = bool(passed.cause) or not passed.calls
    threads = (
        told for told in (*facts.survived, *facts.tracebacks) if told.rank in (None, rank) and _of_a_thread(told)
    )
    fallen = next(threads, None) if passed.cause in FILLED_BY_THREADS else None
    if fallen is not None:
        summary += f'. A thread had ended before, by "{fallen.at.text[:MOST_QUOTED]}"'
    return [
        Candidate(
            cause=passed.cause or "slow-rank-timeout",
            confidence=LIKELY if certain else POSSIBLE,
            standing="pattern" if certain else "consequence",
            moment=first.moment,
            summary=summary,
            ranks=(rank,),
            evidence=(last, *([fallen.at] if fallen else []), *dict.fromkeys(wait.line for wait in waits))[:MOST_LINES],
        )
    ]


def _raised_since(rank: int, last: Line, facts: Facts) -> bool:
    """Whether a rank has told of an exception behind its last words: where that led it they do not tell."""
    told = (each for each in (*facts.survived, *facts.tracebacks) if each.rank == rank and not _of_a_thread(each))
    return any(each.at.file == last.file and each.at.line > last.line for each in told)


FILLED_BY_THREADS = ("queue-wait", "thread-wait")
"""What stands for ever once the thread has ended that it waits for."""


def _of_a_thread(told: ToldTraceback) -> bool:
    """An exception that nobody has caught in a thread: it ends that one, and not the program."""
    return told.traceback.raised[0].outermost in ("_bootstrap", "_bootstrap_inner")


MOST_QUOTED = 120
