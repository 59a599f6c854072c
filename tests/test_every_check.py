"""What every installed check owes, whoever wrote it, and the cases of tests/checks that our own bring along."""

import re

import pytest

from gpudoctor.check import Check
from gpudoctor.diagnose import ask
from gpudoctor.plugins import find_checks
from gpudoctor.snapshot import Snapshot
from gpudoctor.snapshot.section import Section
from gpudoctor.testing.cases import lacks
from gpudoctor.testing.machines import but, h100_node, node, rtx_4090_node, t4_node, unread
from tests.every_case import every_case

CHECKS, BROKEN = find_checks()
CASES = every_case()
EVERY_CHECK = pytest.mark.parametrize("check", CHECKS, ids=[check.id for check in CHECKS])
HEALTHY = {
    "8xH100": h100_node(),
    "2xT4": t4_node(),
    "4xRTX4090": rtx_4090_node(),
    "1xH100": h100_node(1),
}
INSTRUCTIONS = ("avoid-", "use-", "check-", "prefer-", "no-", "ensure-")


def test_all_plugins_load() -> None:
    assert BROKEN == []
    assert CASES.keys() == {check.id for check in CHECKS}


@EVERY_CHECK
def test_names_the_fault_and_documents_it(check: Check) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", check.id)
    assert not check.id.startswith(INSTRUCTIONS), "an id names the fault, it carries no instruction"
    assert check.module.rpartition(".")[2] == check.id.replace("-", "_"), "one file, one check, named alike"
    assert len(check.title) <= 80 and not check.title.endswith(".")
    assert not check.title.startswith("Ensure"), "a title describes the healthy state"
    assert "Why it matters:" in check.documentation
    assert len(check.documentation.splitlines()[0]) <= 120


def test_none_knows_anything_of_an_empty_snapshot() -> None:
    outcomes = {check.id: ask(check, Snapshot()).outcome for check in CHECKS}
    assert {id: outcome for id, outcome in outcomes.items() if outcome not in ("skipped", "not-run")} == {}


@EVERY_CHECK
def test_is_silent_on_a_healthy_machine(check: Check) -> None:
    for name, machine in HEALTHY.items():
        result = ask(check, machine)
        assert result.outcome in ("ok", "not-applicable", "not-run"), (name, result)


@EVERY_CHECK
def test_says_what_its_cases_want(check: Check) -> None:
    cases = CASES[check.id]
    assert {case.expected for case in cases} >= {"silent", "skipped"}, "a near miss, and what it needs to look"
    assert any(case.speaks for case in cases), "a machine on which it speaks"
    for case in cases:
        assert not list(lacks(case, check)), (case.expected, [ask(check, machine) for machine in case.machines])


@pytest.mark.thorough
@EVERY_CHECK
def test_survives_each_fact_going_missing(check: Check) -> None:
    """Whatever single fact of the machines in the cases is lost, the check neither crashes nor turns green by it."""
    fires = [case.machine for case in CASES[check.id] if case.speaks]
    for machine in fires[:1] or [node(())]:
        for section in ("nvidia", "cuda", "accelerators", "host", "network", "training", "active"):
            whole: Section = getattr(machine, section)
            for field in whole.__struct_fields__:
                crippled = _without(machine, section, field)
                assert ask(check, crippled).outcome != "crashed", (section, field)


def _without(machine: Snapshot, section: str, field: str) -> Snapshot:
    return but(machine, f"{section}.{field}", unread())
