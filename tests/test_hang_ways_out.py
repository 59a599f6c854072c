"""Ways out of a loop, or past a collective, that do not stand around the line: in the iterator, further in a call, in
the graph of a backward pass; and who may have given its part to a root."""

import pytest
from msgspec import structs

from gpudoctor.hang.job import Rank
from gpudoctor.snapshot.evidence import Collective, Frame, Recorder
from tests.hang_jobs import TORCH, a_job
from tests.test_hang_loops import LIBRARY, around, at, in_a_round
from tests.test_hang_training import first

COUNTER = """\
class Counter:
    def __init__(self, limit):
        self.current, self.limit, self.over = 0, limit, False

    def __next__(self):
        if {condition}:
            raise StopIteration
        self.current += 1
        return self.current

    def watch(self, loss):
        self.over = loss > self.limit

def main():
    counter = Counter(9)
    for epoch in counter:
        total(epoch)
        {sets}
    dist.barrier()
"""


@pytest.mark.parametrize(
    ("condition", "sets", "told"),
    [
        ("self.current >= self.top", "counter.top = 3", True),
        ("self.over", "counter.watch(loss)", True),
        ("self.current >= self.top", "look(counter.top)", False),
        ("self.current >= self.top", "counter.top = 0", False),
        ("self.current >= len(self.rows)", "counter.limit = 3", False),
    ],
)
def test_what_ends_an_iterator_from_elsewhere(condition: str, sets: str, told: bool) -> None:
    text = COUNTER.format(condition=condition, sets=sets)
    ways = [(way.kind, way.line, way.text) for way in around(text, 17).exits]
    assert ways == ([("break", 6, condition)] if told else [])
    cause = first(a_job(at(0, text, ("main", 17)), at(1, text, ("main", 19)), at(2, text, ("main", 17))))
    assert (cause.cause == "rank-divergent-decision" and cause.confidence > 0.5) is told


EARLY = """\
def reward(texts):
    if not readable(texts):
        return 0.0
    dist.all_reduce(total)

def main():
    for function in functions:
        reward(texts)
    dist.barrier()
"""


def test_who_is_past_a_loop_may_have_returned_early_further_in() -> None:
    stays = [at(rank, EARLY, ("reward", 4), ("main", 8)) for rank in (0, 2)]
    cause = first(a_job(stays[0], at(1, EARLY, ("main", 9)), stays[1]))
    assert (cause.cause, cause.ranks) == ("rank-divergent-decision", (1,)) and cause.confidence > 0.5
    assert "`return` in line 3 (not readable(texts)) leads past it" in cause.summary


GRAPH = """\
def backward(context, *gradients):
    for owner, gradient in enumerate(gradients):
        dist.reduce(gradient, owner)

def main():
    for step in range(1000):
        loss.backward()
        dist.all_reduce(x)
"""


def in_backward(number: int) -> Rank:
    """A rank in a collective of a custom function's backward."""
    rank = at(number, GRAPH, ("backward", 3), ("main", 7), values={"step": "6"})
    place = rank.place._replace(operation="reduce")
    inner, outer = place.user_frames
    engine = Frame("_engine_run_backward", f"{TORCH}/autograd/graph.py", 979)
    samples = tuple(
        structs.replace(
            sample,
            threads=tuple(structs.replace(own, frames=(LIBRARY, inner, engine, outer)) for own in sample.threads),
        )
        for sample in rank.evidence.samples
    )
    evidence = structs.replace(rank.evidence, samples=samples)
    return structs.replace(rank, place=place, first_place=place, evidence=evidence)


def test_a_loop_in_a_graph_is_nobodys_who_has_another_graph() -> None:
    past = in_a_round(GRAPH, 1, 8, "all_reduce", step="6")
    cause = first(a_job(in_backward(0), past, in_backward(2)))
    assert (cause.cause, cause.ranks) == ("rank-divergent-decision", (1,)) and cause.confidence > 0.5
    assert "in what line 7 calls" in cause.summary and cause.where is not None and cause.where.line == 7


SHARE = """\
def share():
    dist.gather(x)

def main():
    for step in range(9):
        share()
        total(x)
"""


def test_one_who_is_past_a_gather_in_which_all_others_stand_has_not_given_its_part() -> None:

    def stays(number: int) -> Rank:
        rank = at(number, SHARE, ("share", 2), ("main", 6), values={"step": "5"})
        place = rank.place._replace(operation="gather")
        return structs.replace(rank, place=place, first_place=place)

    def past(number: int) -> Rank:
        return in_a_round(SHARE, number, 7, "all_reduce", step="5")

    assert first(a_job(stays(0), past(1), stays(2))).confidence > 0.5
    assert first(a_job(stays(0), past(1), past(2))).confidence < 0.5


EXCHANGE = """\
def main():
    for step in range(9):
        dist.recv(x, {peer})
        dist.barrier()
"""


def receives(number: int, peer: str, **values: str) -> Rank:
    rank = at(number, EXCHANGE.format(peer=peer), ("main", 3), values={"rank": str(number), **values})
    place = rank.place._replace(kind="point-to-point", operation="recv")
    return structs.replace(rank, place=place, first_place=place)


@pytest.mark.parametrize("peer", ["(rank + 1) % world", "src=before", "(dist.get_rank() + 1) % dist.get_world_size()"])
def test_all_of_a_circle_receive(peer: str) -> None:
    ranks = [receives(number, peer, world="3", before=str((number + 1) % 3)) for number in range(3)]
    cause = first(a_job(*ranks))
    assert (cause.cause, cause.ranks) == ("p2p-order", (0, 1, 2)) and cause.confidence > 0.8


@pytest.mark.parametrize(
    ("peer", "told"), [("0", True), ("peer", False), ("0, group=pairs", False), ("0, pairs", False)]
)
def test_one_is_received_from_that_has_gone_on(peer: str, told: bool) -> None:
    text = "def main():\n    send_all()\n    dist.barrier()\n"
    cause = first(a_job(at(0, text, ("main", 3)), receives(1, peer), receives(2, peer)))
    assert (cause.cause == "p2p-order" and cause.ranks == (0,) and cause.confidence > 0.5) is told


def recorded(rank: Rank, *halves: str, peer: int) -> Rank:
    """With a recorder that holds a barrier, and sends and receives since."""
    pairs = (
        Collective(group="0", sequence=8 + number, operation=half, point_to_point=True, peer=peer)
        for number, half in enumerate(halves)
    )
    entries = (Collective(group="0", sequence=7, operation="barrier", state="completed"), *pairs)
    recorder = Recorder(source="pipe", rank=rank.rank, entries=entries)
    return structs.replace(rank, evidence=structs.replace(rank.evidence, recorder=recorder))


@pytest.mark.parametrize(("taken", "culprit"), [(1, 1), (2, 0)])
def test_who_has_made_an_exchange_more_is_told_by_recorders(taken: int, culprit: int) -> None:
    """one_microbatch_more: rank 1 has sent twice and waits for the second answer."""
    gone = at(0, "def main():\n    send_all()\n    dist.barrier()\n", ("main", 3))
    gone = recorded(gone, *["recv"] * taken, "send", peer=1)
    cause = first(a_job(gone, recorded(receives(1, "0"), "send", "send", "recv", "recv", peer=0)))
    assert (cause.cause, cause.ranks) == ("p2p-order", (culprit,)) and cause.confidence > 0.5
