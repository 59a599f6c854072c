"""Every lint rule's own examples are tests: a bad one fires that rule, a good one fires no error at all."""

from collections import Counter
from collections.abc import Iterator

import pytest

from gpudoctor.causes import CAUSES
from gpudoctor.lint.facts import parse_facts
from gpudoctor.lint.model import LintFacts, LintJob
from gpudoctor.lint.read import read_job
from gpudoctor.lint.rule import Example, LintFinding, LintRule, every_rule

RULES = every_rule()


def job_of(example: Example) -> LintJob:
    return read_job(example.text, parse_facts(example.facts) if example.facts else LintFacts())


def findings(job: LintJob) -> Iterator[tuple[LintRule, LintFinding]]:
    for rule in RULES:
        for finding in rule.judge(job):
            yield rule, finding


def cases(kind: str) -> pytest.MarkDecorator:
    """Every example of a kind, with its rule."""
    return pytest.mark.parametrize(
        ("rule", "example"),
        [
            pytest.param(rule, example, id=f"{rule.code}-{number}")
            for rule in RULES
            for number, example in enumerate(getattr(rule, kind))
        ],
    )


def test_codes_and_ids_are_unique() -> None:
    for name in ("code", "id"):
        counted = Counter(getattr(rule, name) for rule in RULES)
        assert [each for each, count in counted.items() if count > 1] == []


def test_each_is_documented_has_examples_and_names_causes_that_there_are() -> None:
    assert [rule.code for rule in RULES if len(rule.documentation) <= 60 or not rule.source] == []
    assert [rule.code for rule in RULES if len(rule.bad) < 2 or len(rule.good) < 2 or rule.title.endswith(".")] == []
    assert [(rule.code, id) for rule in RULES for id in rule.leads_to if id not in CAUSES] == []


@cases("bad")
def test_a_bad_example_fires_its_rule(rule: LintRule, example: Example) -> None:
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


@cases("good")
def test_a_good_example_fires_no_error_and_not_its_own_rule(rule: LintRule, example: Example) -> None:
    weakened = ("info", "warning") if rule.severity == "error" else ("info",)
    for fired, finding in findings(job_of(example)):
        said = f"{fired.code} line {finding.span.line}: {finding.summary}"
        assert (finding.severity or fired.severity) != "error", said
        assert fired is not rule or finding.severity in weakened, said
