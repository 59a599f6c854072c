"""What a check's silence, problem or failure to look becomes in the report."""

from collections.abc import Iterator

import pytest

from gpudoctor.check import Check, Fix, GpuRule, Problem, Rule, Severity
from gpudoctor.diagnose import ask, diagnose
from gpudoctor.plugins import BrokenPlugin
from gpudoctor.report import Outcome
from gpudoctor.snapshot import Gpu, Reading, Snapshot, absent, missing, read
from gpudoctor.testing.machines import but, but_gpu, h100_node, unread


def problem(severity: Severity = "error") -> Problem:
    return Problem(severity=severity, summary="s", meaning="m", fix=Fix("f"), evidence=(read("here", 1),))


def whole(rule: Rule) -> Check:
    return Check("a-check", title="t", rule=rule)


def each(rule: GpuRule) -> Check:
    return Check("a-check", title="t", gpu_rule=rule)


def hot(gpu: Gpu, machine: Snapshot) -> Iterator[Problem]:
    if gpu.temperature_celsius.value > 90:
        yield problem()


HOT = read("nvml", 95)
ABSENT = absent("nvml", "not supported")


@pytest.mark.parametrize(
    ("reading", "outcome"),
    [
        (read("x", "node"), "ok"),
        (absent("x", "no such thing"), "not-applicable"),
        (missing("x", "--deep runs it", "not-asked"), "not-run"),
        (missing("x", "no answer", "timeout"), "skipped"),
        (missing("x", "gone", "lost"), "skipped"),
        (missing("x", "denied", "denied"), "skipped"),
        (missing("x", "failed"), "skipped"),
    ],
)
def test_a_fact_that_is_missing_decides_the_outcome(reading: Reading[str], outcome: Outcome) -> None:
    def rule(machine: Snapshot) -> Iterator[Problem]:
        if machine.host.hostname.value == "bad":
            yield problem()

    result = ask(whole(rule), but(Snapshot(), "host.hostname", reading))
    assert result.outcome == outcome
    assert result.reasons == (() if outcome == "ok" else (f"x: {reading.reason}",))


def test_a_gpu_that_cannot_be_read_does_not_hide_the_others() -> None:
    machine = but_gpu(h100_node(4), 1, temperature_celsius=unread("nvml GPU 1"))
    assert ask(each(hot), machine).outcome == "skipped", "three healthy GPUs do not make the fourth healthy"
    found = ask(each(hot), but_gpu(machine, 3, temperature_celsius=HOT))
    assert found.outcome == "problem"
    assert [p.gpus for p in found.problems] == [(3,)]
    assert found.reasons == ("nvml GPU 1: permission denied",)


def test_a_gpu_without_the_feature_is_not_a_blind_spot() -> None:
    machine = but_gpu(h100_node(2), 0, temperature_celsius=ABSENT)
    assert ask(each(hot), machine).outcome == "ok"
    assert ask(each(hot), but_gpu(machine, 1, temperature_celsius=ABSENT)).outcome == "not-applicable"


def test_what_was_found_before_a_missing_fact_is_kept() -> None:
    def rule(machine: Snapshot) -> Iterator[Problem]:
        yield problem()
        machine.host.hostname.value  # noqa: B018 - reading it is the point

    result = ask(whole(rule), Snapshot())
    assert (result.outcome, len(result.problems)) == ("problem", 1)
    assert result.reasons == ("snapshot: not in this snapshot",)


def test_a_check_that_crashes_is_a_result_and_fails_strict() -> None:
    def rule(machine: Snapshot) -> Iterator[Problem]:
        raise KeyError("oops")
        yield

    report = diagnose(h100_node(), [whole(rule), each(hot), each(hot)], [BrokenPlugin("acme", "cannot import it")])
    assert [result.outcome for result in report.results] == ["crashed", "ok", "ok", "crashed"]
    assert "KeyError" in report.results[0].reasons[0] and "test_diagnose.py" in report.results[0].reasons[0]
    assert report.exit_status == 0
    assert report.status(strict=True) == 1


@pytest.mark.parametrize(
    ("severity", "normal", "strict", "nagios"), [("error", 1, 1, 2), ("warning", 0, 1, 1), ("info", 0, 0, 0)]
)
def test_severity_decides_the_exit_status(severity: Severity, normal: int, strict: int, nagios: int) -> None:
    def rule(machine: Snapshot) -> Iterator[Problem]:
        yield problem(severity)

    report = diagnose(h100_node(), [whole(rule)])
    assert (report.exit_status, report.status(strict=True), report.nagios_status()) == (normal, strict, nagios)


def test_nothing_examined_is_not_healthy() -> None:
    report = diagnose(Snapshot(), [each(hot)])
    assert report.verdict == "cannot tell"
    assert (report.exit_status, report.status(strict=True), report.nagios_status()) == (3, 3, 3)


def test_only_what_nobody_asked_for_or_nobody_has_is_not_held_against_strict() -> None:
    def deep(machine: Snapshot) -> Iterator[Problem]:
        machine.active.smoke.value  # noqa: B018 - reading it is the point
        yield problem()

    machine = but_gpu(h100_node(1), 0, memory_temperature_celsius=ABSENT)
    report = diagnose(machine, [whole(deep), each(hot)])
    assert [result.outcome for result in report.results] == ["not-run", "ok"]
    assert report.status(strict=True) == 0
