"""The answer of `gpudoctor hang` as a page: the cause, and where each rank stands, alike ones together with a stack."""

from collections.abc import Iterable, Mapping, Sequence

from gpudoctor.embedded import ANSWER
from gpudoctor.envelope import encode
from gpudoctor.hang.report import HangCause, HangReport, JobReport, RankRow, is_unseen
from gpudoctor.knowledge.places import main_thread
from gpudoctor.knowledge.wording import counted
from gpudoctor.render.hang import Folded, folded, name_of, place, verdict_of, verdict_without_jobs
from gpudoctor.render.html.findings import Card, card, to_do_first
from gpudoctor.render.html.frame import Mood, page
from gpudoctor.render.html.markup import Markup, Part, section, table, tag
from gpudoctor.render.html.markup import folded as opened
from gpudoctor.render.html.squares import KINDS, Square, key, letter, squares
from gpudoctor.snapshot.evidence import Evidence, Frame
from gpudoctor.sure import CERTAIN

MOST_STACK = 60
MOST_STACKS = 64
SHORT = 22
"""Of a list of ranks: kept in one line."""
Stacks = Mapping[tuple[str, int], tuple[Frame, ...]]
"""(host, pid) -> frames of the thread that matters, the innermost first."""


def hang_page(report: HangReport, evidence: Evidence | None, *, hidden: bool = False) -> bytes:
    """Of a saved answer there is no evidence, and so no stacks."""
    stacks = _stacks(evidence) if evidence is not None else {}
    verdicts = [verdict_of(job, report) for job in report.jobs] or [verdict_without_jobs(report)]
    first = next((job.causes[0] for job in report.jobs if job.causes and not job.undecided), None)
    body: list[Part] = []
    for job in report.jobs:
        body += _job(job, report, stacks)
    body += [_others(report), _blind(report)]
    return page(
        command="hang",
        verdict="; ".join(verdicts),
        mood=_mood(report),
        about=report.machine or report.about(),
        first=to_do_first(_card(first) if first is not None else None),
        body=body,
        data={ANSWER: encode(report)},
        hidden=hidden,
        saved=evidence is None and first is not None,
    )


def _mood(report: HangReport) -> Mood:
    if any(job.state == "hung" for job in report.jobs):
        return "bad"
    if any(map(is_unseen, report.jobs)) or not report.jobs or report.lost:
        return "unknown"
    return "warn" if report.exit_status else "good"


def _card(cause: HangCause) -> Card:
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
            part for part in (f"Where: {place(cause.where)}" if cause.where is not None else "", cause.confirm) if part
        ),
    )


def _job(job: JobReport, report: HangReport, stacks: Stacks) -> list[Part]:
    parts: list[Part] = []
    if len(report.jobs) > 1:
        parts.append(tag("h2", name_of(job, report)))
    if job.undecided:
        parts.append(tag("div", tag("p", tag("strong", "Undecided: "), job.undecided), class_="card"))
    title = "Candidates" if job.undecided else "Cause, and what else is possible" if len(job.causes) > 1 else "Cause"
    if job.causes:
        parts.append(section(title, [card(_card(cause)) for cause in job.causes]))
    if job.ranks:
        suspects = {rank for cause in job.causes[:1] if not job.undecided for rank in cause.ranks}
        parts.append(section("Where each rank stands", _ranks(job.ranks, suspects, stacks)))
    if job.only_recorder:
        parts.append(tag("p", job.only_recorder, class_="soft"))
    return parts


def _ranks(rows: Sequence[RankRow], suspects: set[int], stacks: Stacks) -> list[Part]:
    parties = folded(rows)
    letter_of: dict[int, int] = {}
    lines: list[Markup] = []
    stacked: list[Markup] = []
    for number, party in enumerate(parties):
        letter_of |= dict.fromkeys(party.ranks, number)
        lines.append(_line(number, party, suspects & set(party.ranks)))
        if len(stacked) < MOST_STACKS:
            stacked += _stack(number, party, stacks)
    titles = ("", "Rank", "Host", "PID", "State", "Collective", "Where")
    drawn = None
    if 1 < len(rows) > len(parties):
        each = [_square(row, letter_of[row.rank], row.rank in suspects) for row in rows]
        drawn = squares(f"{counted(len(rows), 'rank')} by where they stand", each)
    more = len(parties) - len(stacked) if len(stacked) == MOST_STACKS else 0
    rest = tag("p", f"and the stacks of {more} more lines", class_="soft") if more else None
    return [drawn, table(titles, lines, label="Ranks"), stacked, rest]


def _line(number: int, party: Folded, suspects: set[int]) -> Markup:
    ranks, *others = party.cells()
    mark = tag("span", "suspect", class_="badge error") if suspects else None
    return tag(
        "tr",
        tag("td", key(number)),
        tag("td", ranks, " ", mark, class_="whole" if len(ranks) < SHORT else None),
        [tag("td", cell) for cell in others],
        class_="error" if suspects else None,
    )


def _stack(number: int, party: Folded, stacks: Stacks) -> list[Markup]:
    """Of the first of them: they stand at the same line."""
    frames = stacks.get((party.first.host, party.first.pid), ())
    if not frames:
        return []
    title = (key(number), f" Stack of rank {party.first.rank} ({counted(len(frames), 'frame')})")
    every = [tag("li", tag("code", _frame(frame))) for frame in frames[:MOST_STACK]]
    return [opened(title, tag("ol", every, class_="stack"))]


def _square(row: RankRow, number: int, is_suspect: bool) -> Square:
    title = f"rank {row.rank}: {row.state}" + (f", {row.host}" if row.host else "")
    return Square(letter(number), title, f"k{number % KINDS}", is_suspect)


def _frame(frame: Frame) -> str:
    if not frame.file:
        return frame.function
    return f"{frame.function} {frame.file}" + (f":{frame.line}" if frame.line else "")


def _stacks(evidence: Evidence) -> Stacks:
    """Of each process the last stack that was read of its main thread."""
    found = {}
    for node in evidence.nodes:
        for each in node.processes:
            threads = (main_thread(sample, each.process.pid) for sample in reversed(each.samples))
            frames = next((thread.frames for thread in threads if thread is not None and thread.frames), ())
            if frames:
                found[node.host, each.process.pid] = frames
    return found


def _others(report: HangReport) -> Markup | None:
    if not report.others:
        return None
    lines = [tag("li", f"{other.id}, pid {other.pid}, {counted(other.ranks, 'rank')}") for other in report.others]
    return section("Not looked at", tag("ul", lines))


def _blind(report: HangReport) -> Markup | None:
    lines = [f"node {name}: {why}" for name, why in report.lost.items()]
    lines += [f"{each.what}: {each.reason}" for each in report.unread]
    return section("What could not be seen", _folded_list(lines)) if lines else None


def _folded_list(lines: Iterable[str]) -> Markup:
    every = [tag("li", line) for line in dict.fromkeys(lines)]
    return opened(counted(len(every), "thing"), tag("ul", every))
