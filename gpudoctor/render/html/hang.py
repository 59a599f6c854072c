"""The answer of `gpudoctor hang` as a page: the cause, who came to which collective, where each rank stands."""

from collections.abc import Iterable, Mapping

from gpudoctor.embedded import ANSWER
from gpudoctor.envelope import encode
from gpudoctor.hang.report import HangCause, HangReport, JobReport, RankRow, RankStack, is_unseen
from gpudoctor.knowledge.wording import counted, ranges
from gpudoctor.render.hang import Folded, folded, name_of, place, verdict_of, verdict_without_jobs
from gpudoctor.render.html.courses import course
from gpudoctor.render.html.findings import Card, cards, to_do_first
from gpudoctor.render.html.frame import Mood, Sheet, page
from gpudoctor.render.html.markup import Markup, Part, folded as opened, prose, section, table, tag
from gpudoctor.render.html.squares import KINDS, Square, key, letter, squares
from gpudoctor.snapshot.evidence import Frame
from gpudoctor.sure import CERTAIN

SHORT, LONGEST_WHO = 22, 60
"""Of a list of ranks: kept in one line; told by their number."""
MOST_KEYS = 4
MOST_CAUSES = 8
"""Shown whole; of more the rest in a line each."""
MOST_LINES = 300
"""Of ranks that stand alone each: what a browser draws within a second."""


def hang_page(report: HangReport, *, saved: bool = False, hidden: bool = False) -> bytes:
    return page(hang_sheet(report, saved=saved), hidden=hidden)


def hang_sheet(report: HangReport, *, saved: bool = False) -> Sheet:
    verdicts = [verdict_of(job, report) for job in report.jobs] or [verdict_without_jobs(report)]
    first = next((job.causes[0] for job in report.jobs if job.causes and not job.undecided), None)
    body: list[Part] = []
    for job in report.jobs:
        body += _job(job, report)
    body += [_others(report), _blind(report)]
    return Sheet(
        command="hang",
        verdict="; ".join(verdicts),
        mood=_mood(report),
        about=report.machine or report.about(),
        first=to_do_first(cause_card(first) if first is not None else None),
        body=body,
        data={ANSWER: encode(report)},
        saved=saved and first is not None,
    )


def _mood(report: HangReport) -> Mood:
    if any(job.state == "hung" for job in report.jobs):
        return "bad"
    if any(map(is_unseen, report.jobs)) or not report.jobs or report.lost:
        return "unknown"
    return "warn" if report.exit_status else "good"


def cause_card(cause: HangCause) -> Card:
    is_first = cause.confidence >= CERTAIN
    return Card(
        id=cause.cause,
        severity="error" if is_first else "warning",
        summary=cause.summary,
        meaning=cause.meaning,
        fix=cause.fix,
        evidence=tuple(f"{seen.source}: {seen.text}" for seen in cause.evidence),
        sure=f"How sure: {cause.confidence:.2f} of 1",
        notes=tuple(
            part
            for part in (
                f"Where: {place(cause.where)}" if cause.where is not None else "",
                f"To confirm: {cause.confirm}" if cause.confirm else "",
            )
            if part
        ),
    )


def _job(job: JobReport, report: HangReport) -> list[Part]:
    parts: list[Part] = []
    if len(report.jobs) > 1:
        parts.append(tag("h2", name_of(job, report)))
    if job.undecided:
        parts.append(tag("div", tag("p", tag("strong", "Undecided: "), job.undecided), class_="card"))
    title = "Candidates" if job.undecided else "Cause, and what else is possible" if len(job.causes) > 1 else "Cause"
    if job.causes:
        parts.append(section(title, cards(list(map(cause_card, job.causes)), MOST_CAUSES)))
    if job.groups:
        parts.append(section("Who came to which collective", map(course, job.groups)))
    if job.ranks:
        suspects = {rank for cause in job.causes[:1] if not job.undecided for rank in cause.ranks}
        parts.append(section("Where each rank stands", _ranks(job, suspects)))
    if job.only_recorder:
        parts.append(tag("p", prose(job.only_recorder), class_="soft"))
    return parts


def _ranks(job: JobReport, suspects: set[int]) -> list[Part]:
    rows = job.ranks
    parties = folded(rows)
    letter_of: dict[int, int] = {}
    lines: list[Markup] = []
    for number, party in enumerate(parties):
        letter_of |= dict.fromkeys(party.ranks, number)
        if number < MOST_LINES:
            lines.append(_line(number, party, suspects & set(party.ranks)))
    titles = ("", "Rank", "Host", "PID", "State", "Collective", "Where")
    drawn = None
    if 1 < len(rows) > len(parties):
        each = [_square(row, letter_of[row.rank], row.rank in suspects) for row in rows]
        drawn = squares(f"{counted(len(rows), 'rank')} by where they stand", each)
    more = len(parties) - len(lines)
    rest = tag("p", f"and {counted(more, 'more line')}; the data inside has all", class_="soft") if more else None
    stacks = [_stack(stack, letter_of) for stack in job.stacks]
    return [drawn, table(titles, lines, label="Ranks"), rest, stacks]


def _line(number: int, party: Folded, suspects: set[int]) -> Markup:
    ranks, *others, where = party.cells()
    mark = tag("span", "suspect", class_="badge error") if suspects else None
    text = party.first.frame.text if party.first.frame is not None else ""
    return tag(
        "tr",
        tag("td", key(number)),
        tag("td", ranks, " ", mark, class_="whole" if len(ranks) < SHORT else None),
        [tag("td", cell) for cell in others],
        tag("td", where, tag("code", text, class_="source") if text else None),
        class_="error" if suspects else None,
    )


def _stack(stack: RankStack, letter_of: Mapping[int, int]) -> Markup:
    """Of ranks that have the same; the letters are those of the parties."""
    letters = sorted({letter_of[rank] for rank in stack.ranks if rank in letter_of})
    who = f"rank{'s' if len(stack.ranks) > 1 else ''} {ranges(stack.ranks)}"
    who = who if len(who) < LONGEST_WHO else counted(len(stack.ranks), "rank")
    title = ([key(each) for each in letters[:MOST_KEYS]], f" Stack of {who} ({counted(len(stack.frames), 'frame')})")
    every = [tag("li", tag("code", _frame(frame))) for frame in stack.frames]
    return opened(title, tag("ol", every, class_="stack"))


def _square(row: RankRow, number: int, is_suspect: bool) -> Square:
    title = f"rank {row.rank}: {row.state}" + (f", {row.host}" if row.host else "")
    return Square(letter(number), title, f"k{number % KINDS}", is_suspect)


def _frame(frame: Frame) -> str:
    if not frame.file:
        return frame.function
    return f"{frame.function} {frame.file}" + (f":{frame.line}" if frame.line else "")


def _others(report: HangReport) -> Markup | None:
    if not report.others:
        return None
    lines = [tag("li", f"{other.id}, pid {other.pid}, {counted(other.ranks, 'rank')}") for other in report.others]
    return section("Not looked at", tag("ul", lines))


def _blind(report: HangReport) -> Markup | None:
    lines = [f"node {name}: {why}" for name, why in report.lost.items()]
    lines += [f"{unread.what}: {unread.reason}" for unread in report.unread]
    return section("What could not be seen", _folded_list(lines)) if lines else None


def _folded_list(lines: Iterable[str]) -> Markup:
    every = [tag("li", line) for line in dict.fromkeys(lines)]
    return opened(counted(len(every), "thing"), tag("ul", every))
