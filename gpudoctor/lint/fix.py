"""Findings -> the corrected text.

A finding's edits are made all or none. Where two findings want to change the same place, the worse one has its way; the
other is met again when the corrected text is linted, and corrected in a later round.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations

from gpudoctor.lint.model import LintJob
from gpudoctor.lint.rule import Edit, LintFinding, Severity
from gpudoctor.severity import WORST_FIRST

MOST_ROUNDS = 6
"""Corrections that uncover another fault are rare; a chain of them this long is a rule that undoes another's work."""

Judged = tuple[Severity, LintFinding]
Again = Callable[[str], tuple[LintJob, Sequence[Judged]]]
"""Reads and judges a corrected text."""


def apply(text: str, edits: Iterable[Edit]) -> str:
    """The text with edits that do not overlap; insertions at one place stand in the order given."""
    pieces: list[str] = []
    at = 0
    for edit in sorted(edits, key=lambda edit: (edit.span.start, edit.span.end)):
        pieces += [text[at : edit.span.start], edit.text]
        at = edit.span.end
    return "".join([*pieces, text[at:]])


def chosen(text: str, judged: Iterable[Judged]) -> tuple[Edit, ...]:
    """The edits that can all be made: of errors first, then of what stands first in the text."""
    taken: list[Edit] = []
    for _, finding in sorted(judged, key=lambda each: (WORST_FIRST[each[0]], each[1].span.start)):
        fresh = [edit for edit in dict.fromkeys(finding.edits) if edit not in taken]
        possible = all(_lies_in(text, edit) for edit in fresh)
        possible = possible and not any(_clash(one, other) for one, other in combinations(fresh, 2))
        if possible and not any(_clash(edit, other) for edit in fresh for other in taken):
            taken += fresh
    return tuple(taken)


def _lies_in(text: str, edit: Edit) -> bool:
    return edit.span.exact and 0 <= edit.span.start <= edit.span.end <= len(text)


def _clash(one: Edit, other: Edit) -> bool:
    """Both change the same characters, one inserts into what the other replaces, or both insert the same option."""
    a, b = one.span, other.span
    if a.start == a.end and b.start == b.end:
        return a.start == b.start and bool(_options(one.text) & _options(other.text))
    if a.start == a.end:
        return b.start < a.start < b.end
    if b.start == b.end:
        return a.start < b.start < a.end
    return a.start < b.end and b.start < a.end


def _options(text: str) -> set[str]:
    return {name.replace("_", "-") for name in re.findall(r"--?([\w-]+)", text)} or {text}


def once(job: LintJob, judged: Sequence[Judged]) -> str:
    """The text with one round of corrections."""
    return apply(job.text, chosen(job.text, judged))


def corrected(job: LintJob, judged: Sequence[Judged], again: Again) -> str:
    """The text with all corrections, also of what only a correction brings to light.

    A round that would bring more errors than it ends is not made.
    """
    seen = {job.text}
    for _ in range(MOST_ROUNDS):
        text = once(job, judged)
        if text in seen:
            break
        seen.add(text)
        following, judged_again = again(text)
        if _errors(judged_again) > _errors(judged):
            break
        job, judged = following, judged_again
    return job.text


def _errors(judged: Iterable[Judged]) -> int:
    return sum(severity == "error" for severity, _ in judged)
