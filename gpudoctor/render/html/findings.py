"""Findings on a page: what, what it means, what to do with a button a line, and folded what it rests on."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gpudoctor.check import Fix, Severity
from gpudoctor.knowledge.wording import counted
from gpudoctor.render.html.markup import LONGEST, Markup, Part, folded, prose, table, tag

MOST_CARDS, MOST_LINES = 100, 1000
"""Of thousands of findings a browser makes nothing that anybody reads."""


class Card(NamedTuple):
    """A finding, of whatever command."""

    id: str
    severity: Severity
    summary: str
    meaning: str
    fix: Fix | None
    evidence: tuple[str, ...] = ()
    """Lines, each with its source."""
    who: str = ""
    """Whom it concerns, where the summary does not say."""
    sure: str = ""
    """How sure it is, where it is concluded."""
    notes: tuple[str, ...] = ()
    others: tuple[tuple[str, str], ...] = ()
    """(id, summary) of what follows from it."""


def cards(shown: Sequence[Card], whole: int = MOST_CARDS) -> list[Markup]:
    """The first of them whole, the others in a line each, and those that no page can hold by their number."""
    lines = [
        tag("tr", tag("td", badge(each.severity)), tag("td", each.who, ": " if each.who else "", each.summary))
        for each in shown[whole : whole + MOST_LINES]
    ]
    more = len(shown) - whole - MOST_LINES
    rest = tag("p", f"and {more} more, which the data inside has", class_="soft") if more > 0 else None
    title = f"{counted(len(shown) - whole, 'more finding')}"
    others = [folded(title, table(("", "Finding"), lines, label=title), rest)] if lines else []
    return [*map(card, shown[:whole]), *others]


def card(found: Card) -> Markup:
    tags = [badge(found.severity), tag("span", found.id, class_="id")]
    if found.sure:
        tags.append(tag("span", found.sure, class_="soft"))
    others = [tag("li", summary, " ", tag("span", id, class_="id")) for id, summary in found.others]
    return tag(
        "article",
        tag("p", tags, class_="tags"),
        tag("h3", f"{found.who}: " if found.who else "", found.summary),
        tag("p", prose(found.meaning)) if found.meaning else None,
        fix_of(found.fix) if found.fix is not None else None,
        [tag("p", prose(note)) for note in found.notes],
        folded(f"From the same: {len(others)}", tag("ul", others)) if others else None,
        seen(found.evidence),
        class_=f"card {found.severity}",
    )


def badge(severity: Severity) -> Markup:
    return tag("span", severity, class_=f"badge {severity}")


def seen(evidence: Sequence[str]) -> Markup | None:
    """What it rests on, folded."""
    if not evidence:
        return None
    return folded(f"What was seen ({len(evidence)})", tag("ul", [tag("li", line) for line in evidence]))


def fix_of(fix: Fix, word: str = "Fix") -> Markup:
    """What to do, its lines, what they risk, and what can be done in its place."""
    place = f" ({fix.where})" if fix.where and fix.commands else ""
    return tag(
        "div",
        tag("p", tag("strong", f"{word}{place}: "), prose(fix.text)),
        lines(fix.commands),
        tag("p", tag("strong", "Risk: "), prose(fix.risk)) if fix.risk else None,
        [fix_of(other, "Or") for other in fix.otherwise],
        class_="fix",
    )


def lines(commands: Iterable[str]) -> list[Markup]:
    """Lines to paste. The button appears where scripts run: elsewhere it would do nothing."""
    return [
        tag(
            "div",
            tag("pre", tag("code", command)),
            tag("button", "Copy", type="button", class_="copy", hidden=True, aria_label=f"Copy: {command[:60]}"),
            class_="line",
        )
        for command in commands
        if len(command) <= LONGEST  # half a line is none to paste
    ]


def to_do_first(found: Card | None, why: Part = None) -> Markup | None:
    """The worst finding, and the line to begin with."""
    if found is None or found.severity == "info":
        return None
    fix = found.fix
    command = fix.first_line if fix is not None else None
    what = fix.text if fix is not None and fix.text else "No fix is known."
    place = f" ({fix.where})" if fix is not None and fix.where and command else ""
    return tag(
        "section",
        tag("h2", "What to do first"),
        tag("p", f"{found.who}: " if found.who else "", found.summary, class_="soft"),
        tag("p", tag("strong", prose(f"{what}{place}"))),
        lines([command]) if command is not None else None,
        why,
        class_="card first",
    )
