"""What every installed check owes, whoever wrote it, and the cases that our own bring along."""

import importlib
import re
from pathlib import Path

import pytest

from gpudoctor.check import Check
from gpudoctor.diagnose import ask
from gpudoctor.plugins import find_checks
from gpudoctor.snapshot import NOT_IN_SNAPSHOT, Snapshot
from gpudoctor.snapshot.section import Section
from tests.build import but, h100_node, node, rtx_4090_node, t4_node, unread
from tests.cases import Case

CHECKS, BROKEN = find_checks()
BY_ID = {check.id: check for check in CHECKS}
CASE_FILES = sorted((Path(__file__).parent / "checks").glob("*.py"))
CASES: list[Case] = [case for file in CASE_FILES for case in importlib.import_module(f"tests.checks.{file.stem}").CASES]
EVERY_CHECK = pytest.mark.parametrize("check", CHECKS, ids=[check.id for check in CHECKS])
EVERY_CASE = pytest.mark.parametrize("case", CASES, ids=[f"{number}-{case.check}" for number, case in enumerate(CASES)])

HEALTHY = {
    "8xH100": h100_node(),
    "2xT4": t4_node(),
    "4xRTX4090": rtx_4090_node(),
    "1xH100": h100_node(1),
}
INSTRUCTIONS = ("avoid-", "use-", "check-", "prefer-", "no-", "ensure-")
UNWELCOME = re.compile(r"\b(simply|just|ensure|please)\b|!", re.IGNORECASE)


def test_all_plugins_load() -> None:
    assert BROKEN == []


def test_there_are_at_least_45_checks() -> None:
    assert len([check for check in CHECKS if check.module.startswith("gpudoctor_checks.")]) >= 45


@EVERY_CHECK
def test_names_the_fault_and_documents_it(check: Check) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", check.id)
    assert not check.id.startswith(INSTRUCTIONS), "an id names the fault, it carries no instruction"
    assert check.module.rpartition(".")[2] == check.id.replace("-", "_"), "one file, one check, named alike"
    assert len(check.title) <= 80 and not check.title.endswith(".")
    assert not check.title.startswith("Ensure"), "a title describes the healthy state"
    assert "Why it matters:" in check.documentation
    assert len(check.documentation.splitlines()[0]) <= 120


@EVERY_CHECK
def test_knows_nothing_of_an_empty_snapshot(check: Check) -> None:
    assert ask(check, Snapshot()).outcome in ("skipped", "not-run")


@EVERY_CHECK
@pytest.mark.parametrize("name", HEALTHY)
def test_is_silent_on_a_healthy_machine(check: Check, name: str) -> None:
    result = ask(check, HEALTHY[name])
    assert result.outcome in ("ok", "not-applicable", "not-run"), result


@EVERY_CHECK
def test_has_its_cases(check: Check) -> None:
    cases = [case for case in CASES if case.check == check.id]
    assert cases, f"tests/checks/ has no case on which {check.id} fires"
    assert any(case.unread is not None for case in cases), f"no case in which {check.id} could not read"


@EVERY_CASE
def test_fires(case: Case) -> None:
    result = ask(BY_ID[case.check], case.fires)
    assert result.outcome == "problem", result
    assert len(result.problems) == case.times, [problem.summary for problem in result.problems]
    problem = result.problems[0]
    assert problem.severity == case.severity
    # A reading that failed can be the evidence (a lost GPU, a call that hangs); one that nobody tried cannot.
    assert problem.evidence and problem.evidence[0] != NOT_IN_SNAPSHOT
    for words in case.says:
        assert words in problem.summary
    for line in case.commands:
        assert line in problem.fix.commands
    for found in result.problems:
        text = " ".join((found.summary, found.meaning, found.fix.text))
        assert not UNWELCOME.search(text), text
        assert found.meaning and found.fix.text
        assert "\n" not in found.summary and not found.summary.endswith(".")
        assert all("\n" not in line for line in found.fix.commands)


@EVERY_CASE
def test_is_silent(case: Case) -> None:
    if case.silent is not None:
        result = ask(BY_ID[case.check], case.silent)
        assert result.outcome in ("ok", "not-applicable"), result


@EVERY_CASE
def test_is_skipped_when_it_cannot_look(case: Case) -> None:
    if case.unread is not None:
        result = ask(BY_ID[case.check], case.unread)
        assert result.outcome == "skipped", result
        assert result.reasons


@EVERY_CHECK
def test_survives_each_fact_going_missing(check: Check) -> None:
    """Whatever single fact of the machines in the cases is lost, the check neither crashes nor turns green by it."""
    for machine in [case.fires for case in CASES if case.check == check.id][:1] or [node(())]:
        for section in ("nvidia", "cuda", "accelerators", "host", "network", "training", "active"):
            whole: Section = getattr(machine, section)
            for field in whole.__struct_fields__:
                crippled = _without(machine, section, field)
                assert ask(check, crippled).outcome != "crashed", (section, field)


def _without(machine: Snapshot, section: str, field: str) -> Snapshot:
    return but(machine, f"{section}.{field}", unread())
