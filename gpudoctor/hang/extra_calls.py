"""A collective that only some ranks have ever called: by flight recorders, beside what all had called before.

Where ranks come to one number of a group with different calls, either has made it too early, too late or alone. A call
from a line at which no rank has called before, met by one that all ranks repeat, is one more than the others make.
"""

from collections.abc import Mapping, Sequence

from gpudoctor.hang.job import HangJob, Rank
from gpudoctor.hang.parted import share_a_loop
from gpudoctor.hang.recorders import GroupSplit, line_of_program
from gpudoctor.hang.relation import relation
from gpudoctor.hang.report import HangCause
from gpudoctor.hang.words import blame, stacks_of, waiting_words
from gpudoctor.snapshot.evidence import Collective, Frame, Recorder
from gpudoctor.sure import LIKELY

Call = tuple[str, tuple[tuple[int, ...], ...], Frame | None]


def alone_in_the_loop(job: HangJob, first: Sequence[Rank], second: Sequence[Rank]) -> HangCause | None:
    """A call in the loop that no rank had made before, while the others are in one that all repeat: they came by
    without it. Which of them decides, the program does not say; rank 0 is the one that is chosen for such work."""
    alone = made_alone(job)
    for own, others in ((second, first), (first, second)):
        how = relation(others[0], own[0])
        # The loop may be further out, as a framework's is that calls a function of its own for each step.
        in_loop = how == "later in the loop" or (how == "later" and share_a_loop(others[0], own[0]))
        if {rank.rank for rank in own} == set(alone) and in_loop:
            return blame(
                "rank0-only-collective" if alone == (0,) else "rank-divergent-decision",
                LIKELY,
                own if len(own) <= len(others) else others,
                f"{waiting_words(own)}, where no rank had made a collective before; {waiting_words(others)}, as in "
                "each step",
                (*stacks_of(own), *stacks_of(others)),
                at=(own if len(own) <= len(others) else others)[0].place.user_frame,
            )
    return None


def made_alone(job: HangJob) -> tuple[int, ...]:
    """The ranks that have made one more than the others; () where it is not so, or not told."""
    split = job.agreement.first if job.agreement is not None else None
    if split is None or split.kind not in ("operation", "shape", "dtype") or len(split.parties) != 2:
        return ()
    recorders = recorders_of(job)
    for (ranks, own), (_, common) in (split.parties[::-1], split.parties):
        if line_of_program(own) is None or not all(rank in recorders for rank in ranks):
            continue
        before = [_before(recorder, split) for recorder in recorders.values()]
        # Of a recorder that keeps no lines, calls are told apart by what they are.
        lines = any(entry.frames for entries in before for entry in entries)
        calls = [{_call(entry, lines) for entry in entries} for entries in before]
        repeated = all(_call(common, lines) in each for each in calls)
        known = {line_of_program(entry) if lines else _call(entry, lines) for entries in before for entry in entries}
        if repeated and (line_of_program(own) if lines else _call(own, lines)) not in known:
            return tuple(ranks)
    return ()


def recorders_of(job: HangJob) -> Mapping[int, Recorder]:
    """By rank: of its processes, and of the dumps of one that is gone."""
    dumps = {dump.rank: dump for dump in job.evidence.dumps if dump.rank is not None}
    live = {rank.rank: rank.evidence.recorder for rank in job.ranks if rank.evidence.recorder is not None}
    return live or dumps


def _before(recorder: Recorder, split: GroupSplit) -> Sequence[Collective]:
    same = (entry for entry in recorder.entries if entry.group == split.group and not entry.point_to_point)
    return [entry for entry in same if entry.sequence < split.sequence]


def _call(entry: Collective, lines: bool) -> Call:
    return entry.operation, entry.input_sizes, line_of_program(entry) if lines else None
