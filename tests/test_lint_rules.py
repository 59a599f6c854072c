"""Every lint rule's own examples are tests: a bad one fires that rule, a good one fires no error at all."""

from collections import Counter
from collections.abc import Iterator

import pytest

from gpudoctor.lint.facts import parse_facts
from gpudoctor.lint.model import Facts, Job
from gpudoctor.lint.read import read_job
from gpudoctor.lint.rule import Example, Finding, Rule, every_rule

RULES = every_rule()


def job_of(example: Example) -> Job:
    return read_job(example.text, parse_facts(example.facts) if example.facts else Facts())


def findings(job: Job) -> Iterator[tuple[Rule, Finding]]:
    for rule in RULES:
        for finding in rule.judge(job):
            yield rule, finding


def errors(job: Job) -> list[str]:
    return [
        f"{rule.code} line {finding.span.line}: {finding.summary}"
        for rule, finding in findings(job)
        if (finding.severity or rule.severity) == "error"
    ]


def test_codes_and_ids_are_unique() -> None:
    for name in ("code", "id"):
        counted = Counter(getattr(rule, name) for rule in RULES)
        assert [each for each, count in counted.items() if count > 1] == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_it_is_documented_and_has_examples(rule: Rule) -> None:
    assert len(rule.documentation) > 60
    assert rule.source
    assert len(rule.bad) >= 2
    assert len(rule.good) >= 2
    assert not rule.title.endswith(".")


@pytest.mark.parametrize(
    ("rule", "example"),
    [
        pytest.param(rule, example, id=f"{rule.code}-{number}")
        for rule in RULES
        for number, example in enumerate(rule.bad)
    ],
)
def test_a_bad_example_fires_its_rule(rule: Rule, example: Example) -> None:
    found = list(rule.judge(job_of(example)))
    assert found
    size = len(example.text)
    for finding in found:
        assert 0 <= finding.span.start <= finding.span.end <= size
        assert finding.summary
        assert not finding.summary.endswith(".")
        assert "\n" not in finding.summary
        assert finding.happens.endswith(".")
        assert finding.fix
        assert not {"!", "simply", "just", "please"} & set(f"{finding.happens} {finding.fix}".split())
        for edit in finding.edits:
            assert 0 <= edit.span.start <= edit.span.end <= size


@pytest.mark.parametrize(
    "example",
    [pytest.param(example, id=f"{rule.code}-{number}") for rule in RULES for number, example in enumerate(rule.good)],
)
def test_a_good_example_fires_no_error(example: Example) -> None:
    assert errors(job_of(example)) == []


@pytest.mark.parametrize(
    ("rule", "example"),
    [
        pytest.param(rule, example, id=f"{rule.code}-{number}")
        for rule in RULES
        for number, example in enumerate(rule.good)
    ],
)
def test_a_good_example_does_not_fire_its_own_rule(rule: Rule, example: Example) -> None:
    weakened = ("info", "warning") if rule.severity == "error" else ("info",)
    assert [finding.summary for finding in rule.judge(job_of(example)) if finding.severity not in weakened] == []
