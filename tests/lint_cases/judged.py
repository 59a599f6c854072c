"""What all rules say of a text, and what its correction by one of them lacks. A text is judged once."""

import functools
from collections.abc import Collection, Iterator, Sequence
from unittest import mock

from gpudoctor.lint.facts import parse_facts
from gpudoctor.lint.lint import FiredRule, Linted, judge, linted
from gpudoctor.lint.model import LintFacts, LintJob
from gpudoctor.lint.read import read_job
from gpudoctor.lint.rule import Edit, LintRule, every_rule

RULES = every_rule()


@functools.lru_cache(4)  # what several rules ask of a text is found once
def job_of(facts: str, text: str, kind: str | None = None) -> LintJob:
    return read_job(text, parse_facts(facts) if facts else LintFacts(), kind)


def judged(
    job: LintJob, rules: Sequence[LintRule] = RULES, off: Collection[str] = ()
) -> tuple[tuple[FiredRule, ...], tuple[str, ...]]:
    """As `judge` does it, once for a text: what was corrected is judged in the last round and by who looks at it."""
    key = job.text, job.kind, repr(job.facts)
    if key not in _JUDGED:
        if len(_JUDGED) > 16:
            _JUDGED.clear()
        _JUDGED[key] = judge(job, rules, off)
    return _JUDGED[key]


_JUDGED: dict[tuple[str, str, str], tuple[tuple[FiredRule, ...], tuple[str, ...]]] = {}


def answer_to(facts: str, text: str, kind: str | None = None) -> Linted:
    with mock.patch("gpudoctor.lint.lint.judge", judged):
        return linted(job_of(facts, text, kind), RULES)


def errors(job: LintJob) -> dict[str, str]:
    """Summaries, by the rule's code."""
    return {fired.rule.code: fired.finding.summary for fired in judged(job)[0] if fired.severity == "error"}


def corrected(text: str, edits: tuple[Edit, ...]) -> str:
    for edit in sorted(set(edits), key=lambda each: (each.span.start, each.span.end), reverse=True):
        text = text[: edit.span.start] + edit.text + text[edit.span.end :]
    return text


def bad_start_lacks(rule: LintRule, facts: str, given: str) -> Iterator[str]:
    """Nothing, when the rule finds a fault that its own corrections take out, without another error for it."""
    first = job_of(facts, given)
    if not any(rule.judge(first)):
        yield "is not found"
    text, job = given, first
    for _ in range(6):  # one fault may hide the next of its kind
        edits = next((each.edits for each in rule.judge(job) if each.edits), ())
        if not edits:
            break
        better = corrected(text, edits)
        if better == text:
            yield f"is corrected by nothing: {edits}"
        text = better
        job = job_of(facts, text, first.kind)
    yield from (finding.summary for finding in rule.judge(job) if finding.edits)
    if text != given and rule.code[0] not in "QV":  # words that are read as they were meant can tell more
        more = errors(job).keys() - errors(first).keys()
        yield from (f"{new} in {text!r}" for new in more)
