"""Where ranks left the common way when no statement around their lines tells: what is left of all ways, attributes of
objects, the end of a program, half an exchange."""

import subprocess
import sys
import textwrap

import pytest
from msgspec import structs

from gpudoctor.hang.conclude import conclude_job
from gpudoctor.hang.job import Rank
from gpudoctor.hang.loops import holds
from gpudoctor.read.job.attributes import numbers_of
from gpudoctor.read.job.source import context
from gpudoctor.read.job.tensors import Memory
from gpudoctor.snapshot.evidence import Frame
from gpudoctor.sure import BEST, LIKELY
from tests.hang_jobs import PROGRAM, a_job, source, waits

LOOP = ("for", 20, "step in range(1000)")
HOLDS = """
    import sys, time
    class State:
        def __init__(self):
            self.step, self._own = 12, 3
    class Base:
        every, name = 4, "hf_secret"
    class Trainer(Base):
        every, rounds, nothing, _hidden, step = 40, 7, 5, 1, property(int)
        def __init__(self):
            self.stop, self.token, self.rate, self.large, self.below = True, "hf_secret", 0.25, 1 << 40, -3
            self.state, self.nothing = State(), None
    trainer = Trainer()
    spread = Trainer()
    spread.__dict__["later"] = 0
    print(id(trainer), id(spread), flush=True)
    time.sleep(600)
"""
TOLD = {
    "every": "40",
    "rounds": "7",
    "stop": "True",
    "rate": "0.25",
    "large": str(1 << 40),
    "below": "-3",
    "state.step": "12",
}


def _stands(number: int, function: str, *outer: tuple[str, int], at: int, sources: tuple[object, ...]) -> Rank:
    rank = waits(number, at=at, function=function, sources=sources)
    frames = (Frame(function, PROGRAM, at), *(Frame(name, PROGRAM, line) for name, line in outer))
    rank = structs.replace(rank, place=rank.place._replace(user_frames=frames))
    return structs.replace(rank, first_place=rank.place)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
@pytest.mark.skipif(sys.version_info[:2] not in ((3, 11), (3, 12), (3, 13)), reason="the layouts that were tried")
def test_numbers_that_objects_hold_are_read_and_nothing_else() -> None:
    command = [sys.executable, "-c", textwrap.dedent(HOLDS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            own, spread = map(int, process.stdout.readline().split())
            with Memory(process.pid) as memory:
                minor = sys.version_info[1]
                assert numbers_of(memory, own, minor, deep=True) == TOLD
                assert numbers_of(memory, spread, minor, deep=True) == {**TOLD, "later": "0"}
                assert numbers_of(memory, own, 10) == {}
                assert numbers_of(memory, 8, minor) == {}
        finally:
            process.kill()


def test_an_attribute_that_says_yes_decides_and_one_that_says_no_may_have_been_set_anew() -> None:
    held = {"self.stop": "True", "self.bad": "1", "bad": "1"}
    assert [holds(text, held) for text in ("self.stop", "self.bad > 2", "bad > 2", "self.other")] == [
        True,
        None,
        False,
        None,
    ]


def test_a_continue_above_what_one_waits_in_is_what_is_left() -> None:
    behind = source(58, inside=[LOOP], exits=[("continue", 55, "not torch.isfinite(loss)")])
    inner = source(35, inside=[("function", 30, "summary")], function="summary")
    one = _stands(1, "summary", ("main", 58), ("<module>", 900), at=35, sources=(behind, inner))
    other = _stands(0, "sync", ("main", 51), ("<module>", 900), at=27, sources=(source(51, inside=[LOOP]),))
    one = structs.replace(one, place=one.place._replace(operation="gather_object"))
    found = conclude_job(a_job(other, structs.replace(one, first_place=one.place))).causes[0]
    assert (found.cause, found.confidence) == ("rank-divergent-decision", BEST)
    assert found.where is not None
    assert found.where.line == 55


def test_who_was_called_by_no_module_has_left_the_program() -> None:
    at_end = _stands(2, "Tracker.finish", at=25, sources=())
    others = [
        _stands(number, "train", ("<module>", 90), at=54, sources=(source(54, inside=[LOOP], function="train"),))
        for number in (0, 1)
    ]
    found = conclude_job(a_job(*others, at_end)).causes[0]
    assert (found.cause, found.ranks, found.confidence) == ("teardown-deadlock", (2,), LIKELY)


ASKS = """\
def unhealthy(model):
    return any(check(model) for check in CHECKS)

def learn(self):
    if not self.replay.warm:
        return None
    for weight in self.weights:
        dist.all_reduce(weight)
"""


def test_what_any_asks_in_turn_ends_at_the_first_yes() -> None:
    told = context(Frame("unhealthy", PROGRAM, 2), lambda _: ASKS.encode())
    assert told is not None
    assert (told.enclosing[0].kind, told.enclosing[0].text) == ("if", "any((check(model) for check in CHECKS))")


def test_what_leaves_a_function_above_its_loops_is_told() -> None:
    told = context(Frame("learn", PROGRAM, 8), lambda _: ASKS.encode())
    assert told is not None
    assert [(each.kind, each.line, each.text) for each in told.outer_exits] == [("return", 6, "not self.replay.warm")]
