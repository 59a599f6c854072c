"""What a lint rule and a symptom say of the examples that they bring along: their tests."""

from collections.abc import Iterator, Sequence

from gpudoctor.lint.facts import parse_facts
from gpudoctor.lint.model import LintFacts, LintJob
from gpudoctor.lint.read import read_job
from gpudoctor.lint.rule import Example, LintRule
from gpudoctor.symptom import Symptom

UNWELCOME = frozenset({"!", "simply", "just", "please"})
"""Words that docs/messages.md does not want."""


def job_of(example: Example) -> LintJob:
    """An example as lint reads it, with its facts."""
    return read_job(example.text, parse_facts(example.facts) if example.facts else LintFacts())


def bad_example_lacks(rule: LintRule, example: Example) -> Iterator[str]:
    """What is wrong with the rule's answer to a text that it must accuse; nothing when all is well."""
    fired = list(rule.judge(job_of(example)))
    if not fired:
        yield "does not fire"
    size = len(example.text)
    for finding in fired:
        spans = (finding.span, *(edit.span for edit in finding.edits))
        yield from (f"{span} is outside the text" for span in spans if not 0 <= span.start <= span.end <= size)
        if not finding.summary or finding.summary.endswith(".") or "\n" in finding.summary:
            yield f"summary: {finding.summary!r}"
        if not finding.fix or not finding.happens.endswith("."):
            yield f"happens and fix: {finding.happens!r} {finding.fix!r}"
        yield from UNWELCOME & set(f"{finding.happens} {finding.fix}".split())


def good_example_lacks(rule: LintRule, example: Example, rules: Sequence[LintRule]) -> Iterator[str]:
    """Errors of any of the rules in a text that is right, and what the rule itself accuses it of."""
    weakened = ("info", "warning") if rule.severity == "error" else ("info",)
    job = job_of(example)
    for other in rules:
        for finding in other.judge(job):
            is_error = (finding.severity or other.severity) == "error"
            if is_error or (other is rule and finding.severity not in weakened):
                yield f"{other.code} line {finding.span.line}: {finding.summary}"


def symptom_lacks(symptom: Symptom) -> Iterator[str]:
    """Samples that it does not find, and counter-examples that it does; nothing when all is well."""
    if not (symptom.samples and symptom.counters):
        yield "no sample, or no counter-example"
    yield from (f"does not find {line!r}" for line in symptom.samples if not _shows(symptom, line))
    yield from (f"finds {line!r}" for line in symptom.counters if _shows(symptom, line))


def _shows(symptom: Symptom, line: str) -> bool:
    return any(needle in line for needle in symptom.needles) and symptom.match(line) is not None
