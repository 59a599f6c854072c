"""Ranks of which only a dump or a log is left, as the rules see ranks: each in the collective that it waited in, at the
lines from which it had called that.

What a job has left says nothing of its processes, so these ranks are no part of `HangJob.ranks`: they are asked about
the program alone (`causes/collective_dumped.py`).
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import structs

from gpudoctor.hang.job import HangJob, Rank
from gpudoctor.hang.recorded import backwards, kept_by, placed
from gpudoctor.hang.recorders import Agreement
from gpudoctor.knowledge.places import Place, is_user
from gpudoctor.snapshot.evidence import (
    Evidence,
    Frame,
    NodeEvidence,
    Process,
    ProcessEvidence,
    Recorder,
    Sample,
    SourceContext,
    Thread,
)

BY = "flight recorder"
MOST_UNTOLD = 4096
"""Ranks of a world that are made up where a log does not speak of them."""
NOBODY = 0
"""The process id of a rank that is known by what it left."""
ELSEWHERE = Place("user code")


def with_ranks(job: HangJob) -> HangJob | None:
    """The job with the ranks of its dumps; None where it has ranks that live, or nothing of its program was read."""
    agreement, sources = job.agreement, job.evidence.sources
    if job.ranks or agreement is None or agreement.first is None or not sources:
        return None
    dumps = {dump.rank: dump for dump in job.evidence.dumps if dump.rank in agreement.ranks}
    ranks = [_rank(number, dump, agreement, sources) for number, dump in sorted(dumps.items()) if number is not None]
    return structs.replace(job, ranks=tuple(ranks))


def of_places(places: Mapping[int, Place], world_size: int, sources: Sequence[SourceContext]) -> HangJob:
    """A job of which is known where its ranks waited: those that are not told of did not come there."""
    world = max(world_size, *(number + 1 for number in places))
    told = places if world > MOST_UNTOLD else {**dict.fromkeys(range(world), Place("unknown")), **places}
    ranks = tuple(left_by(number, place, sources, "log") for number, place in sorted(told.items()))
    return HangJob(id="log", evidence=Evidence(), world_size=world, ranks=ranks)


def left_by(number: int, place: Place, sources: Sequence[SourceContext], by: str) -> Rank:
    """A rank that stood there when its time was up, and in the moment before."""
    thread = Thread(id=NOBODY, switches=0)
    samples = tuple(Sample(at=at, state="S", threads=(thread,), stacks_by=by) for at in (0.0, 1.0))
    process = Process(pid=NOBODY, parent=NOBODY, started=0)
    return Rank(
        rank=number,
        local_rank=None,
        world_size=None,
        node=NodeEvidence(name="", hostname=""),
        evidence=ProcessEvidence(process=process, samples=samples, sources=tuple(sources)),
        place=place,
        first_place=place,
        moved=False,
    )


def _rank(number: int, dump: Recorder, agreement: Agreement, sources: Sequence[SourceContext]) -> Rank:
    entry = kept_by(dump, agreement.first) or agreement.current.get(number)
    idle = left_by(number, ELSEWHERE, sources, BY)
    if entry is None:
        return idle
    for stack in _stacks(dump):
        last_seen = structs.replace(idle, place=ELSEWHERE._replace(user_frame=stack[0], user_frames=stack))
        if next(backwards(last_seen), None) is not None:  # what hooks of DDP and FSDP start names no line of its own
            idle = last_seen
            break
    place = placed(idle, entry) or ELSEWHERE._replace(kind="collective", operation=entry.operation)
    return left_by(number, place, sources, BY)


def _stacks(dump: Recorder) -> Iterator[tuple[Frame, ...]]:
    """From where the program has called its collectives, the last one first."""
    for entry in reversed(dump.entries):
        if frames := tuple(filter(is_user, entry.frames)):
            yield frames
