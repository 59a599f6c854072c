"""Ranks and collectives over time: who came, who did not; ranks with the same past are one row."""

from collections.abc import Sequence

from gpudoctor.hang.report import CourseRow, GroupCourse
from gpudoctor.knowledge.wording import counted, ranges
from gpudoctor.render.hang import place
from gpudoctor.render.html.markup import Markup, Part, table, tag

SIGNS = {"c": "✓", "s": "…", "q": "○", "d": "≠", ".": "✕", "?": "?"}
SHADES = {"c": "is-ok", "s": "is-warning", "q": "is-warning", "d": "is-differs", ".": "is-error", "?": "is-unseen"}
WORDS = {
    "c": "completed",
    "s": "came, and waits",
    "q": "called, and not begun",
    "d": "came with another one than most",
    ".": "has not come",
    "?": "not known",
}
LONGEST_RANKS, LONGEST_TITLE = 40, 400


def course(group: GroupCourse) -> Markup:
    """A column a collective, the last at the right; a row the ranks that have the same past, the fewest first."""
    titles: list[Part] = ["Ranks", *(_title(number, group) for number in range(len(group.columns)))]
    rows = [_row(row, group) for row in group.rows]
    used = [letter for letter in WORDS if any(letter in row.states for row in group.rows)]
    legend = ", ".join(f"{SIGNS[letter]} {WORDS[letter]}" for letter in used)
    more = [
        f"{counted(len(group.more), 'rank')} more: {_ranks(group.more)}" if group.more else "",
        f"No recorder was read of {_ranks(group.unread)}." if group.unread else "",
    ]
    return tag(
        "div",
        tag("p", tag("strong", name(group)), f": {stands(group)}"),
        tag("div", table(titles, rows, label=f"Ranks and collectives of {name(group)}"), class_="heat courses"),
        tag("p", f"{legend}. Times: after the first, by the clock of one rank.", class_="soft"),
        [tag("p", line, class_="soft") for line in more if line],
    )


def name(group: GroupCourse) -> str:
    described = group.description or ("default_pg" if group.group == "0" else "")
    return f"group {described} ({group.group})" if described and described != group.group else f"group {group.group}"


def stands(group: GroupCourse) -> str:
    """In words: at which collective it stands, who came and who did not."""
    for number, column in enumerate(group.columns):
        by_letter: dict[str, list[int]] = {}
        for row in group.rows:
            by_letter.setdefault(row.states[number], []).extend(row.ranks)
        if not {"s", "q", "d", "."} & by_letter.keys():
            continue
        said = [
            f"{_ranks(by_letter[letter])} {WORDS[letter]}" for letter in ("s", "q", "d", ".") if letter in by_letter
        ]
        where = f" ({place(column.where, short=True)})" if column.where is not None else ""
        return f"{column.words or f'#{column.sequence}'}{where}: {'; '.join(said)}"
    return "all that was recorded has completed"


def _ranks(numbers: Sequence[int]) -> str:
    words = ranges(numbers)
    if len(words) > LONGEST_RANKS:
        return counted(len(numbers), "rank")
    return f"rank{'s' if len(numbers) > 1 else ''} {words}"


def _title(number: int, group: GroupCourse) -> Markup:
    column = group.columns[number]
    called = f"{column.operation} #{column.sequence}".strip()
    when = f"+{column.seconds:.3g} s" if column.seconds is not None else ""
    line = place(column.where) if column.where is not None else ""
    title = ", ".join(filter(None, (column.words, line)))
    return tag("span", called, tag("span", f" {when}", class_="soft") if when else None, class_="upright", title=title)


def _row(row: CourseRow, group: GroupCourse) -> Markup:
    cells = [
        tag("td", SIGNS[letter], class_=f"cell {SHADES[letter]}", title=f"#{column.sequence}: {WORDS[letter]}")
        for letter, column in zip(row.states, group.columns, strict=False)
        if letter in SIGNS
    ]
    return tag("tr", tag("th", _ranks(row.ranks), scope="row", title=ranges(row.ranks)[:LONGEST_TITLE]), cells)
