"""What decides behind a call into a library: how its object was made, what it was told, what was not asked of it."""

import pytest
from msgspec import structs

from gpudoctor.hang.job import HangJob
from gpudoctor.hang.objects import with_objects
from gpudoctor.hang.report import HangCause
from gpudoctor.hang.words import blame
from gpudoctor.read.job.source import context
from gpudoctor.snapshot.evidence import Enclosing, Frame, FrameVariables, SourceContext
from gpudoctor.sure import BEST, POSSIBLE
from tests.hang_jobs import PROGRAM, a_job, source, waits

TEXT = """\
import dist
class Run:
    def __init__(self, rank):
        self.metric = Mean()
        if rank == 0:
            self.engine.add_handler(EVERY, self.validate)
    def validate(self, engine):
        rows = self.rows()
        if rows.numel():
            self.metric.update(rows)
        return self.metric.compute()
    def steps(self, model, count):
        schedule = Schedule(model, parts=count)
        for batch in self.loader:
            loss = model(batch)
            if bad(loss):
                continue
            enough = batch.tokens > 96
            model.set_sync(enough)
            model(batch).backward()
            schedule.step(batch)
            if loss > self.goal:
                break
        dist.barrier()
        if self.last:
            schedule.close()
"""
FOUND = {
    (11, "validate"): [("made", 4, "Mean()"), ("asked", 9, "rows.numel()"), ("handed", 5, "rank == 0")],
    (14, "steps"): [("left", 22, "loss > self.goal")],
    (20, "steps"): [("asked", 16, "bad(loss)"), ("told", 19, "enough")],
    (21, "steps"): [("made", 13, "Schedule(model, parts=count)"), ("asked", 16, "bad(loss)")],
    (24, "steps"): [],
}


@pytest.mark.parametrize(("line", "function"), FOUND)
def test_what_the_file_does_with_the_object_of_a_call(line: int, function: str) -> None:
    read = context(Frame(function, PROGRAM, line), lambda _: TEXT.encode())
    assert read is not None
    assert {(each.kind, each.line, each.text) for each in read.objects} == {*FOUND[line, function]}


def _job(*objects: Enclosing, held: tuple[str, str] = ("4", "4")) -> tuple[HangJob, HangCause]:
    """Two ranks at two lines; the first is in the call that `objects` are of."""
    here = structs.replace(source(41, text="schedule.step(batch)"), objects=objects)
    there: SourceContext = source(52)
    ranks = [waits(0, at=41, sources=(here,)), waits(1, at=52, sources=(there,))]
    for number, rank in enumerate(ranks):
        frame = rank.place.user_frames[0]
        values = (FrameVariables(frame=frame, values={"count": held[number]}),)
        ranks[number] = structs.replace(rank, evidence=structs.replace(rank.evidence, variables=values))
    said = blame("rank-divergent-decision", POSSIBLE, ranks[1:], "they part", (), at=ranks[0].place.user_frame)
    return a_job(*ranks), said


def test_an_object_that_was_made_with_unlike_numbers_decides_before_what_is_only_written() -> None:
    made = Enclosing("made", 13, "Schedule(model, parts=count)")
    job, said = _job(Enclosing("asked", 16, "bad(loss)"), made, held=("4", "8"))
    first = with_objects(job, [said])[0]
    assert first.where is not None
    assert (first.where.line, first.confidence) == (13, BEST)
    assert "count = 4 on rank 0, 8 on rank 1" in first.summary
    job, said = _job(Enclosing("asked", 16, "bad(loss)"), made)
    first = with_objects(job, [said])[0]
    assert first.where is not None
    assert (first.where.line, first.confidence) == (41, POSSIBLE)  # alike: undecided as before
    first = with_objects(job, [structs.replace(said, confidence=BEST)])[0]
    assert first.where is not None
    assert first.where.line == 16


def test_a_condition_that_counts_and_a_line_that_decides_stay() -> None:
    job, said = _job(Enclosing("asked", 16, "step % 5 == 0"))
    assert with_objects(job, [said]) == (said,)
    job, said = _job(Enclosing("asked", 16, "bad(loss)"))
    said = structs.replace(said, confidence=BEST)
    assert said.where is not None
    decides = structs.replace(said, where=structs.replace(said.where, line=30))
    assert with_objects(job, [decides]) == (decides,)
