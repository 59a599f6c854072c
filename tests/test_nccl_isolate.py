"""--find-slow in simulated clusters: the right node or link is named, nobody else is, and the rounds stay few."""

import math
import random
import time
from collections.abc import Collection, Mapping

import pytest
from hypothesis import given, strategies as st
from msgspec import Struct, field

from gpudoctor.nccl.isolate import Isolating
from gpudoctor.nccl.isolate_judge import BAD_BELOW, GLOO_BAD_BELOW
from gpudoctor.nccl.isolate_pairs import adjacent, among_themselves, matched, round_robin
from gpudoctor.nccl.result import Isolation as Answer

PAIR_RATE, ALONE_RATE = 40.0, 300.0
NOISE = 0.15
SEEDS = st.integers(0, 2**32)


class Cluster(Struct, frozen=True):
    """A pair is as fast as its slowest part. Factors are of the healthy rate; 0 hangs."""

    nodes: int
    factors: Mapping[int, float] = field(default_factory=dict)
    """Of a node's network."""
    inside: Mapping[int, float] = field(default_factory=dict)
    """Of what a node reaches by itself, and then with others too."""
    links: Mapping[tuple[int, int], float] = field(default_factory=dict)
    noise: float = NOISE
    seed: int = 0

    @property
    def names(self) -> list[str]:
        return [f"n{node}" for node in range(self.nodes)]

    def reaches(self, group: tuple[int, ...], chance: random.Random) -> float | None:
        parts = [self.inside.get(node, 1.0) for node in group]
        if len(group) == 2:
            parts += [self.factors.get(node, 1.0) for node in group] + [self.links.get((group[0], group[1]), 1.0)]
        rate = ALONE_RATE if len(group) == 1 else PAIR_RATE
        return rate * min(parts) * (1 + chance.uniform(-self.noise, self.noise)) or None


def isolate(cluster: Cluster, *, ranks_alone: bool = False, bad_below: float = BAD_BELOW) -> Answer:
    """Runs all rounds, and holds what is true of every plan."""
    planner = Isolating(cluster.names, ranks_alone=ranks_alone, bad_below=bad_below)
    chance = random.Random(cluster.seed)
    seen: set[tuple[int, ...]] = set()
    while (wanted := planner.next_round()) is not None:
        members = [node for group in wanted.groups for node in group]
        assert len(members) == len(set(members)), "a node is in two groups of a round"
        assert seen.isdisjoint(wanted.groups), "a group is measured twice"
        assert all(len(group) in (1, 2) and list(group) == sorted(group) for group in wanted.groups)
        seen.update(wanted.groups)
        planner.feed([cluster.reaches(group, chance) for group in wanted.groups])
    answer = planner.conclusion()
    assert len(answer.rounds) <= 2 + math.log2(cluster.nodes)
    assert planner.next_round() is None
    return answer


def names(nodes: Collection[int]) -> set[str]:
    return {f"n{node}" for node in nodes}


def kinds(answer: Answer) -> set[str]:
    return {culprit.kind for culprit in answer.culprits}


def measured_pairs(answer: Answer) -> set[tuple[str, ...]]:
    return {group for done in answer.rounds for group in done.groups if len(group) == 2}


SIZES = (3, 4, 5, 6, 7, 8, 9, 16, 33, 1000, 1024)


@pytest.mark.parametrize("ranks_alone", [False, True])
@pytest.mark.parametrize(
    ("nodes", "bad"), [(nodes, bad) for nodes in SIZES for bad in (0, 1, 2, 5) if 2 * bad <= nodes]
)
@pytest.mark.parametrize("factor", [0.5, 0.1, 0.0])
def test_bad_nodes_are_named_and_nobody_else(nodes: int, bad: int, factor: float, ranks_alone: bool) -> None:
    for seed in range(3 if nodes > 100 else 20):
        guilty = random.Random(f"{seed} {nodes}").sample(range(nodes), bad)
        cluster = Cluster(nodes, factors=dict.fromkeys(guilty, factor), seed=seed)
        answer = isolate(cluster, ranks_alone=ranks_alone)
        assert set(answer.exclude) <= names(guilty), (guilty, answer.summary)
        assert "link" not in kinds(answer)
        named = set(answer.exclude) == names(guilty) and kinds(answer) == ({"node"} if bad else set())
        if nodes == 5 and bad == 2 and ranks_alone:
            # Three rounds of pairs: the first healthy pair may come in the last, and then the answer is an honest no.
            assert named or answer.summary.startswith("Only ") or "unclear" in kinds(answer), answer.summary
        else:
            assert named, (guilty, answer.summary)


@pytest.mark.parametrize("nodes", [8, 16, 64, 256])
@pytest.mark.parametrize("guilty", ["even", "first half", "chance"])
def test_half_of_the_nodes_may_be_slow(nodes: int, guilty: str) -> None:
    every = list(range(nodes))
    chosen = {
        "even": every[::2],
        "first half": every[: nodes // 2],
        "chance": random.Random(nodes).sample(every, nodes // 2),
    }[guilty]
    answer = isolate(Cluster(nodes, factors=dict.fromkeys(chosen, 0.5)))
    assert set(answer.exclude) == names(chosen), answer.summary


@st.composite
def node_faults(draw: st.DrawFn) -> Cluster:
    nodes = draw(st.integers(2, 40))
    guilty = draw(st.sets(st.integers(0, nodes - 1), max_size=nodes))
    factors = {node: draw(st.sampled_from([0.0, 0.2, 0.5])) for node in sorted(guilty)}
    inside = {node: draw(st.sampled_from([0.0, 0.5])) for node in sorted(guilty) if draw(st.booleans())}
    return Cluster(nodes, factors=factors, inside=inside, seed=draw(SEEDS))


@given(node_faults(), st.booleans())
def test_no_innocent_node_is_ever_accused(cluster: Cluster, ranks_alone: bool) -> None:
    """Whatever part of the nodes is bad, and in whatever way."""
    answer = isolate(cluster, ranks_alone=ranks_alone)
    assert set(answer.exclude) <= names(cluster.factors)
    accused = {culprit.nodes[0] for culprit in answer.culprits if culprit.kind == "node"}
    assert accused <= names(cluster.factors)
    assert "link" not in kinds(answer)


@given(st.integers(3, 40), st.booleans(), st.sampled_from([0.0, 0.3, 0.5]), st.data())
def test_a_bad_link_is_named_where_it_was_measured(
    nodes: int, ranks_alone: bool, factor: float, data: st.DataObject
) -> None:
    ends = data.draw(st.permutations(range(nodes)))[:2]
    link = (min(ends), max(ends))
    answer = isolate(Cluster(nodes, links={link: factor}, seed=data.draw(SEEDS)), ranks_alone=ranks_alone)
    assert answer.exclude == ()
    expected = (f"n{link[0]}", f"n{link[1]}")
    if expected in measured_pairs(answer):
        assert [(culprit.kind, culprit.nodes) for culprit in answer.culprits] == [("link", expected)]
    else:
        assert answer.culprits == ()
        assert nodes > 4


def test_a_bad_node_and_a_bad_link_are_told_apart_on_three_nodes() -> None:
    link = isolate(Cluster(3, links={(0, 2): 0.3}))
    assert [(culprit.kind, culprit.nodes) for culprit in link.culprits] == [("link", ("n0", "n2"))]
    assert len(link.rounds) == 3
    node = isolate(Cluster(3, factors={2: 0.3}, noise=0.0))
    assert [(culprit.kind, culprit.nodes) for culprit in node.culprits] == [("node", ("n2",))]
    assert node.culprits[0].why == "12 GB/s with n0 and 12 GB/s with n1, where healthy pairs reach 40 GB/s"
    assert node.summary == "1 node of 3 is slow or broken: n2."


@given(st.integers(2, 64), st.booleans(), SEEDS)
def test_noise_accuses_nobody(nodes: int, ranks_alone: bool, seed: int) -> None:
    answer = isolate(Cluster(nodes, seed=seed), ranks_alone=ranks_alone)
    assert not answer.culprits and not answer.exclude


FACTOR_TWO = 1 / 3
"""Noise of gloo on a busy machine: (1 + 1/3) / (1 - 1/3) = 2."""


@given(st.integers(2, 64), st.booleans(), SEEDS)
def test_a_busy_machine_accuses_nobody_over_gloo(nodes: int, ranks_alone: bool, seed: int) -> None:
    answer = isolate(Cluster(nodes, noise=FACTOR_TWO, seed=seed), ranks_alone=ranks_alone, bad_below=GLOO_BAD_BELOW)
    assert not answer.culprits and not answer.exclude


@pytest.mark.parametrize("nodes", [3, 4, 8])
@pytest.mark.parametrize("ranks_alone", [False, True])
def test_a_hundredth_is_named_over_gloo_on_a_busy_machine(nodes: int, ranks_alone: bool) -> None:
    for seed in range(50):
        chance = random.Random(seed)
        guilty = chance.randrange(nodes)
        node = isolate(
            Cluster(nodes, factors={guilty: 0.01}, noise=FACTOR_TWO, seed=seed),
            ranks_alone=ranks_alone,
            bad_below=GLOO_BAD_BELOW,
        )
        assert [(culprit.kind, culprit.nodes) for culprit in node.culprits] == [("node", (f"n{guilty}",))]
        one, other = sorted(chance.sample(range(nodes), 2))
        link = isolate(
            Cluster(nodes, links={(one, other): 0.01}, noise=FACTOR_TWO, seed=seed),
            ranks_alone=ranks_alone,
            bad_below=GLOO_BAD_BELOW,
        )
        ends = (f"n{one}", f"n{other}")
        expected = [("link", ends)] if ends in measured_pairs(link) else []
        assert [(culprit.kind, culprit.nodes) for culprit in link.culprits] == expected
        assert nodes == 8 or expected


@pytest.mark.parametrize(("bad_below", "low"), [(BAD_BELOW, 0.53), (GLOO_BAD_BELOW, 0.35)])
def test_one_pair_far_below_and_one_somewhat_low_is_a_link(bad_below: float, low: float) -> None:
    """As measured on a busy machine: a node holds all of its pairs at its own level."""
    reach = {(0, 1): 0.01, (0, 2): low, (1, 2): 1.0}
    planner = Isolating(["a", "b", "c"], ranks_alone=False, bad_below=bad_below)
    while (wanted := planner.next_round()) is not None:
        planner.feed([reach[min(group), max(group)] for group in wanted.groups])
    answer = planner.conclusion()
    assert [(culprit.kind, culprit.nodes) for culprit in answer.culprits] == [("link", ("a", "b"))]
    assert answer.exclude == ()
    assert f"a reaches {low} GB/s with c" in answer.culprits[0].why


def test_earlier_rounds_are_judged_by_corrected_values() -> None:
    """A size that a later group could not hold is no measure for the earlier ones."""
    planner = Isolating(["a", "b", "c"], ranks_alone=False)
    values = [40.0, 40.0, 20.0]
    for value in values:
        planner.next_round()
        planner.feed([value])
    assert planner.conclusion().culprits
    planner.correct([[21.0], [22.0], [20.0]])
    answer = planner.conclusion()
    assert not answer.culprits
    assert [done.bus_bandwidth for done in answer.rounds] == [(21.0,), (22.0,), (20.0,)]


def test_the_healthy_are_told_what_was_measured() -> None:
    answer = isolate(Cluster(16, noise=0.0))
    assert answer.summary == (
        "No node stands out: 16 pairs of 16 nodes reach 40 GB/s to 40 GB/s, median 40 GB/s; "
        "16 of 120 links were measured."
    )


def test_two_nodes_cannot_be_told_apart() -> None:
    well = isolate(Cluster(2, noise=0.0))
    assert well.summary.startswith("n0 and n1 reach 40 GB/s together. Two nodes cannot tell")
    hung = isolate(Cluster(2, factors={1: 0.0}))
    assert hung.exclude == ()
    assert [(culprit.kind, culprit.nodes) for culprit in hung.culprits] == [("unclear", ("n0", "n1"))]
    assert "a third node would" in hung.summary


@pytest.mark.parametrize("nodes", [2, 3, 4, 8, 100])
@pytest.mark.parametrize("factor", [0.0, 0.5])
def test_a_node_that_is_bad_by_itself_is_named_for_it(nodes: int, factor: float) -> None:
    answer = isolate(Cluster(nodes, inside={1: factor}), ranks_alone=True)
    assert answer.exclude == ("n1",)
    assert "by itself, where healthy nodes reach" in answer.culprits[0].why
    if not factor:
        assert not any("n1" in pair for pair in measured_pairs(answer)) or nodes == 3


@pytest.mark.parametrize("nodes", [3, 4, 8, 100])
def test_when_nothing_works_it_is_nobodys_fault(nodes: int) -> None:
    answer = isolate(Cluster(nodes, factors=dict.fromkeys(range(nodes), 0.0)))
    assert answer.exclude == ()
    assert kinds(answer) == {"unclear"}
    assert "no single node's fault" in answer.summary
    assert nodes <= 4 or len(answer.rounds) == 2, "each further round would hang for its whole deadline"
    alone = isolate(Cluster(nodes, inside=dict.fromkeys(range(nodes), 0.0)), ranks_alone=True)
    assert alone.exclude == ()
    assert "that is all of them" in alone.summary


def test_most_nodes_hang_and_the_rest_are_good() -> None:
    answer = isolate(Cluster(16, factors=dict.fromkeys(range(9), 0.0)))
    assert set(answer.exclude) == names(range(9))


def test_a_fast_few_make_nobody_slow() -> None:
    """n0 and n1 share a chassis, say. Where nobody else was measured faster, more than half cannot all be at fault."""
    answer = isolate(Cluster(9, factors=dict.fromkeys(range(2, 9), 0.5), noise=0.0))
    assert not answer.culprits and not answer.exclude
    assert "Only n0 and n1 reach 40 GB/s in pairs; the other 7 nodes reach 20 GB/s" in answer.summary


def test_one_fast_link_among_many_nodes_is_no_norm() -> None:
    """With it as the norm, everybody else would be a suspect and measured round after round."""
    answer = isolate(Cluster(64, factors=dict.fromkeys(range(2, 64), 0.3), noise=0.0))
    assert not answer.culprits
    assert len(answer.rounds) == 2
    assert answer.summary.startswith(
        "No node stands out: 64 pairs of 64 nodes reach 12 GB/s to 40 GB/s, median 12 GB/s"
    )


def test_the_guilty_meet_three_others_and_the_innocent_are_left_in_peace() -> None:
    """Two known-good partners prove it, a third keeps a hiccup from accusing anybody; more would only cost time."""
    answer = isolate(Cluster(64, factors={7: 0.3}))
    assert answer.exclude == ("n7",)
    assert sum("n7" in pair for pair in measured_pairs(answer)) == 3
    assert len(answer.rounds) == 3
    assert [len(done.groups) for done in answer.rounds] == [32, 32, 1]


@pytest.mark.parametrize("nodes", [8, 16, 64])
def test_two_bad_links_of_one_node_do_not_make_it_a_bad_node(nodes: int) -> None:
    """The partners of its first two rounds: only the third tells."""
    one_bad = isolate(Cluster(nodes, factors={0: 0.3}))
    partners = [int(group[1][1:]) for done in one_bad.rounds[:2] for group in done.groups if group[0] == "n0"]
    answer = isolate(Cluster(nodes, links={(0, partner): 0.3 for partner in partners}))
    assert answer.exclude == ()
    assert {culprit.nodes for culprit in answer.culprits} == {("n0", f"n{partner}") for partner in partners}
    assert kinds(answer) == {"link"}


def test_a_node_below_the_slow_majority_is_named() -> None:
    slow = dict.fromkeys(range(2, 9), 0.5)
    answer = isolate(Cluster(9, factors={**slow, 4: 0.1}, noise=0.0))
    assert answer.exclude == ("n4",)


def test_a_slow_uplink_is_no_nodes_fault() -> None:
    half = 32
    links = {(one, other): 0.4 for one in range(half) for other in range(half, 2 * half)}
    answer = isolate(Cluster(2 * half, links=links))
    assert answer.exclude == ()
    assert kinds(answer) == {"unclear"}
    assert "a switch or an uplink between them" in answer.culprits[0].why


@pytest.mark.parametrize("rounds", [1, 2])
def test_a_node_that_was_left_out_is_said_to_be_unmeasured(rounds: int) -> None:
    """Unknown is not healthy: of nine nodes, the first round of pairs leaves one out."""
    cluster = Cluster(9, noise=0.0)
    planner = Isolating(cluster.names, ranks_alone=False)
    for _ in range(rounds):
        wanted = planner.next_round()
        assert wanted is not None
        planner.feed([cluster.reaches(group, random.Random(0)) for group in wanted.groups])
    assert ("Not measured with any other node: n8." in planner.conclusion().summary) == (rounds == 1)


def test_a_pair_that_nothing_decides_is_told_beside_a_guilty_node() -> None:
    """Two others hang together, and the search ends before either met somebody else."""
    planner = Isolating([f"n{node}" for node in range(9)], ranks_alone=True)
    planner.next_round()
    planner.feed([None, *[300.0] * 8])
    wanted = planner.next_round()
    assert wanted is not None
    assert all(0 not in group for group in wanted.groups)
    planner.feed([None, *[40.0] * 3])
    answer = planner.conclusion()
    pair = tuple(f"n{node}" for node in wanted.groups[0])
    assert [(culprit.kind, culprit.nodes) for culprit in answer.culprits] == [("node", ("n0",)), ("unclear", pair)]
    assert answer.exclude == ("n0",)
    assert f"with too few measurements to tell why: {pair[0]} - {pair[1]}" in answer.summary


def test_an_interrupted_search_says_so() -> None:
    planner = Isolating(["a", "b", "c"], ranks_alone=False)
    first = planner.next_round()
    assert first is not None
    assert planner.known_good == frozenset()
    planner.feed([7.0])
    assert planner.known_good == frozenset(first.groups[0])
    answer = planner.conclusion()
    assert answer.rounds[0].bus_bandwidth == (7.0,)
    assert "interrupted after 1 round" in answer.summary
    empty = Isolating(["a", "b"], ranks_alone=False).conclusion()
    assert not empty.rounds and not empty.culprits
    assert "No pair of nodes was measured" in empty.summary


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, 0.0])
def test_what_is_no_bandwidth_counts_as_hung(value: float) -> None:
    planner = Isolating(["a", "b"], ranks_alone=False)
    planner.next_round()
    planner.feed([value])
    assert planner.conclusion().rounds[0].bus_bandwidth == (None,)


def test_wrong_use_is_refused() -> None:
    with pytest.raises(ValueError, match="at least two"):
        Isolating(["a"], ranks_alone=True)
    planner = Isolating(["a", "b"], ranks_alone=False)
    with pytest.raises(RuntimeError, match="no round"):
        planner.feed([1.0])
    planner.next_round()
    with pytest.raises(RuntimeError, match="feed"):
        planner.next_round()
    with pytest.raises(ValueError, match="zip"):
        planner.feed([1.0, 2.0])


@pytest.mark.thorough
def test_planning_a_thousand_nodes_costs_little(capsys: pytest.CaptureFixture[str]) -> None:
    before = time.process_time()
    answer = isolate(Cluster(1024, factors=dict.fromkeys(range(0, 1024, 2), 0.5)))
    with capsys.disabled():
        print(
            f" [{len(answer.rounds)} rounds of 1,024 nodes, half slow: {time.process_time() - before:.2f} s of CPU] ",
            end="",
        )
    assert len(answer.exclude) == 512


# ---------------------------------------------------------------- who with whom


@given(st.integers(2, 30))
def test_round_robin_lets_everyone_meet_everyone_once(nodes: int) -> None:
    rounds = round_robin(nodes)
    assert len(rounds) == nodes - 1 + nodes % 2
    pairs = [pair for one in rounds for pair in one]
    assert len(pairs) == len(set(pairs)) == nodes * (nodes - 1) // 2
    assert all(len({node for pair in one for node in pair}) == 2 * len(one) for one in rounds)


@given(
    st.lists(st.integers(0, 60), unique=True, max_size=40), st.sets(st.tuples(st.integers(0, 60), st.integers(0, 60)))
)
def test_pairs_are_new_and_disjoint(nodes: list[int], met: set[tuple[int, int]]) -> None:
    before = {(min(pair), max(pair)) for pair in met}
    pairs = among_themselves(nodes, before)
    members = [node for pair in pairs for node in pair]
    assert len(members) == len(set(members))
    assert set(members) <= set(nodes)
    assert before.isdisjoint(pairs)
    left = sorted(set(nodes) - set(members))
    assert all(
        pair in before for index, one in enumerate(left) for pair in ((one, other) for other in left[index + 1 :])
    )


@given(st.integers(4, 60), SEEDS)
def test_a_second_grouping_leaves_out_at_most_one(nodes: int, seed: int) -> None:
    order = random.Random(seed).sample(range(nodes), nodes)
    before = set(adjacent(range(nodes)))
    assert len(among_themselves(order, before)) == nodes // 2


def test_the_first_suspect_gets_the_first_helper_it_has_not_met() -> None:
    assert matched([5, 6, 7], [1, 2], {(1, 5)}) == ([(2, 5), (1, 6)], [7], [])
