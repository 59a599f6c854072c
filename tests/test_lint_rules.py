"""Every lint rule's own examples are tests: a bad one fires that rule, a good one fires no error at all."""

from collections import Counter

import pytest

from gpudoctor.causes import CAUSES
from gpudoctor.lint.rule import LintRule, every_rule
from gpudoctor.testing.examples import bad_example_lacks, good_example_lacks

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
def test_a_bad_example_fires_its_rule(rule: LintRule) -> None:
    assert [(number, lack) for number, each in enumerate(rule.bad) for lack in bad_example_lacks(rule, each)] == []


@every_one
def test_a_good_example_fires_no_error_and_not_its_own_rule(rule: LintRule) -> None:
    lacks = [(number, lack) for number, each in enumerate(rule.good) for lack in good_example_lacks(rule, each, RULES)]
    assert lacks == []
