"""In what nodes differ from most of them, and how the faults of many are folded."""

import time
from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from gpudoctor.check import Fix, Problem, Severity
from gpudoctor.fleet.compare import FACTS, AlikeNodes, Difference, differences
from gpudoctor.fleet.majority import parties
from gpudoctor.fleet.names import folded, have
from gpudoctor.fleet.survey import Survey, Unexamined, folded_problems, folded_reasons
from gpudoctor.nccl.preflight_nodes import under
from gpudoctor.render.fleet import verdict
from gpudoctor.snapshot import Snapshot, absent, from_json, missing, to_json
from gpudoctor.testing.machines import but, gpu, h100_node, unread
from gpudoctor.testing.networks import changed_interface


def nodes(count: int = 4, **changed: Snapshot) -> dict[str, Snapshot]:
    return {f"n{number:02d}": h100_node() for number in range(1, count + 1)} | changed


def test_like_nodes_do_not_differ() -> None:
    assert differences(nodes()) == ()
    assert differences({}) == ()
    assert differences({"n01": h100_node()}) == ()


@pytest.mark.parametrize(
    ("fact", "changed", "value"),
    [
        ("driver", but(h100_node(), "nvidia.driver_version", "550.54"), "550.54"),
        ("kernel", but(h100_node(), "host.kernel_release", "5.4.0"), "5.4.0"),
        ("GPUs", but(h100_node(), "nvidia.gpus", tuple(map(gpu, range(7)))), "7x NVIDIA H100 80GB HBM3"),
        ("GPUs", but(h100_node(), "nvidia.gpus", absent("nvml", "no GPU")), "none"),
        ("MTU", changed_interface(h100_node(), "eth0", mtu=9000), "eth0 9000"),
        ("Python", but(h100_node(), "training.python_version", "3.9.1"), "3.9.1"),
        ("clock", but(h100_node(), "host.clock_synchronised", False), "not synchronised"),
        ("memory", but(h100_node(), "host.memory_total_bytes", 512 << 30), "512 GiB"),
        ("NCCL_ALGO", under(h100_node(), {"NCCL_ALGO": "Ring"}), "'Ring'"),
    ],
)
def test_one_that_differs_is_named(fact: str, changed: Snapshot, value: str) -> None:
    found = {each.fact: each for each in differences(nodes(n03=changed))}
    assert fact in found
    assert (found[fact].count, found[fact].others) == (3, (AlikeNodes(value, ("n03",)),))
    if fact not in ("GPUs",):
        assert set(found) == {fact}


def test_what_could_not_be_read_is_said_and_not_counted_as_alike() -> None:
    (found,) = differences(nodes(n02=but(h100_node(), "nvidia.driver_version", unread("nvml"))))
    assert (found.fact, found.count, found.others) == ("driver", 3, ())
    assert found.unread == (AlikeNodes("nvml: permission denied", ("n02",)),)
    assert found.words == (
        "driver: n02 could not tell (nvml: permission denied); 3 nodes have " + h100_node().nvidia.driver_version.value
    )


def test_what_nobody_asked_for_is_no_difference() -> None:
    unasked = but(h100_node(), "training.torch", missing("torch", "not asked", "not-asked"))
    assert all(each.fact != "torch" for each in differences({"n01": unasked, "n02": unasked}))


def test_of_two_nodes_the_first_is_the_measure() -> None:
    other = but(h100_node(), "nvidia.driver_version", "550.54")
    (found,) = differences({"b": other, "a": h100_node()})
    assert (found.majority, found.count, found.others[0].nodes) == ("550.54", 1, ("a",))


def test_settings_that_may_differ_are_passed_over() -> None:
    assert differences(nodes(n01=under(h100_node(), {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": "/tmp/x"}))) == ()


def test_empty_snapshots_are_compared_without_a_word_of_health() -> None:
    assert differences({"a": Snapshot(), "b": Snapshot()}) == ()
    found = differences({"a": Snapshot(), "b": h100_node(), "c": h100_node()})
    assert {each.fact for each in found} >= set(FACTS) - {"RDMA firmware"}
    assert all(each.unread and each.unread[0].nodes == ("a",) for each in found)


@pytest.mark.thorough
def test_a_thousand_nodes(record_property: Callable[[str, object], None]) -> None:
    raw = to_json(h100_node())
    many = {f"n{number:04d}": from_json(raw) for number in range(1000)}
    many["n0007"] = but(many["n0007"], "host.kernel_release", "5.4.0")
    started = time.perf_counter()
    (found,) = differences(many)
    seconds = time.perf_counter() - started
    assert (found.count, found.others[0].nodes) == (999, ("n0007",))
    record_property("seconds", seconds)
    print(f"1,000 snapshots compared in {seconds:.2f} s")


@given(st.dictionaries(st.text(min_size=1), st.integers(0, 3)))
def test_every_node_is_in_one_party(values: dict[str, int]) -> None:
    found = parties(values)
    assert sorted(name for party in found for name in party.nodes) == sorted(values)
    assert [len(party.nodes) for party in found] == sorted((len(party.nodes) for party in found), reverse=True)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ((), ""),
        (("n1",), "n1"),
        (("n01", "n02", "n03", "n09"), "n[01-03,09]"),
        (("10.0.0.1", "10.0.0.2"), "10.0.0.[1-2]"),
        (("a", "b"), "a,b"),
        (("n[1", "n2"), "n[1,n2"),
    ],
)
def test_names_are_folded(names: tuple[str, ...], expected: str) -> None:
    assert folded(names) == expected


@given(st.lists(st.text(max_size=20), max_size=8))
def test_no_name_breaks_the_folding(names: list[str]) -> None:
    assert isinstance(folded(names), str)
    assert have(names).endswith(("has", "have"))


# --- survey -------------------------------------------------------------------------------------------------------


def problem(summary: str, severity: Severity = "warning") -> Problem:
    return Problem(severity=severity, summary=summary, meaning="m.", fix=Fix("f."), evidence=())


def test_faults_that_differ_in_numbers_or_names_are_one() -> None:
    found = folded_problems(
        [
            ("a", "disk-space-low", problem("/ of a has 1.5 GiB free, a machine needs 10 GiB")),
            ("b", "disk-space-low", problem("/ of b has 0.3 GiB free, a machine needs 10 GiB")),
            ("b", "memory-low", problem("it is low", "error")),
        ]
    )
    assert [(each.check, each.nodes) for each in found] == [("memory-low", ("b",)), ("disk-space-low", ("a", "b"))]
    assert found[1].summaries["b"].startswith("/ of b has 0.3 GiB")
    assert found[0].summaries == {}


def test_reasons_are_folded_by_node() -> None:
    found = folded_reasons({"a": ("x: denied", "x: denied"), "b": ("x: denied", "y: lost")})
    assert found == (AlikeNodes("x: denied", ("a", "b")), AlikeNodes("y: lost", ("b",)))


LOST = Unexamined(id="node-no-answer", nodes=("c",), problem=problem("c did not answer", "error"))
DIFFERS = Difference(fact="driver", majority="1", count=1, others=(AlikeNodes("2", ("b",)),))


@pytest.mark.parametrize(
    ("fields", "status", "strict", "words"),
    [
        ({}, 0, 0, "2 nodes ready to train"),
        ({"differences": (DIFFERS,)}, 0, 1, "2 nodes ready to train, with 1 difference between nodes"),
        ({"problems": [("a", "x", problem("w"))]}, 0, 1, "2 nodes ready to train, with warnings on a"),
        ({"problems": [("a", "x", problem("e", "error"))]}, 1, 1, "Not ready to train: errors on a"),
        ({"problems": [("a", "x", problem("i", "info"))]}, 0, 0, "2 nodes ready to train"),
        ({"unexamined": (LOST,), "nodes": ("a", "b", "c")}, 1, 1, "Not ready to train: c not examined"),
        ({"blind": (AlikeNodes("x", ("a",)),)}, 0, 1, "2 nodes ready to train, with checks that could not look"),
        ({"examined": (), "unexamined": (LOST,)}, 1, 1, "Not ready to train: none of 2 nodes could be examined"),
        ({"examined": (), "unexamined": (LOST,), "nodes": ("c",)}, 1, 1, "Not ready to train: c could not be examined"),
    ],
)
def test_verdicts_and_exit_status(fields: dict[str, object], status: int, strict: int, words: str) -> None:
    made = {"nodes": ("a", "b"), "examined": ("a", "b")} | fields
    if "problems" in made:
        made["problems"] = folded_problems(made["problems"])  # type: ignore[arg-type]
    survey = Survey(**made)  # type: ignore[arg-type]
    assert (survey.exit_status, survey.status(strict=True), verdict(survey)) == (status, strict, words)
