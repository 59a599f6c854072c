"""Every lint rule's own examples are tests: a bad one fires that rule and is corrected, a good one fires no error."""

from collections import Counter
from collections.abc import Iterator

import pytest

from gpudoctor.causes import CAUSES
from gpudoctor.lint.facts import parse_facts
from gpudoctor.lint.read import read_job
from gpudoctor.lint.rule import Example, LintRule, every_rule, rules_for
from gpudoctor.testing.examples import bad_example_lacks, good_example_lacks
from tests.lint_cases.judged import answer_to, bad_start_lacks

RULES = every_rule()


every_one = pytest.mark.parametrize("rule", RULES, ids=[rule.code for rule in RULES])


def test_codes_and_ids_are_unique() -> None:
    for name in ("code", "id"):
        counted = Counter(getattr(rule, name) for rule in RULES)
        assert [each for each, count in counted.items() if count > 1] == []


def test_each_is_documented_has_examples_and_names_causes_that_there_are() -> None:
    assert [rule.code for rule in RULES if len(rule.documentation) <= 60 or not rule.source] == []
    assert [rule.code for rule in RULES if len(rule.bad) < 2 or len(rule.good) < 2 or rule.title.endswith(".")] == []
    assert [(rule.code, id) for rule in RULES for id in rule.leads_to if id not in CAUSES] == []


@every_one
def test_a_bad_example_fires_its_rule_and_its_corrected_text_has_the_fault_no_more(rule: LintRule) -> None:
    for each in rule.bad:
        assert [*bad_example_lacks(rule, each), *bad_start_lacks(rule, each.facts, each.text)] == [], each.text
        assert rule in rules_for(read_job(each.text, parse_facts(each.facts))), "its family is not asked of this text"


@pytest.mark.thorough
@every_one
def test_all_rules_correct_a_bad_example_once_and_for_all(rule: LintRule) -> None:
    assert [(number, lack) for number, each in enumerate(rule.bad) for lack in correcting_lacks(each)] == []


@every_one
def test_a_good_example_fires_no_error_and_not_its_own_rule(rule: LintRule) -> None:
    lacks = [(number, lack) for number, each in enumerate(rule.good) for lack in good_example_lacks(rule, each, RULES)]
    assert lacks == []


def correcting_lacks(example: Example) -> Iterator[str]:
    """All rules together: correcting twice changes nothing more, and brings no error that was not there."""
    first = answer_to(example.facts, example.text)
    yield from (unknown for unknown in first.unknown if "a bug in gpudoctor" in unknown)
    if first.corrected == example.text:
        return
    second = answer_to(example.facts, first.corrected, first.job.kind)
    if second.corrected != first.corrected:
        yield f"corrected once more: {second.corrected!r}"
    errors, left = (
        [fired.finding.summary for fired in of.found if fired.severity == "error"] for of in (first, second)
    )
    if len(left) > len(errors):
        yield f"errors afterwards: {left}"
