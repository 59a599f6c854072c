"""The answer of `gpudoctor report` as a page: the run over time, its cause, and what every other command says there."""

from collections.abc import Mapping

from gpudoctor.embedded import ANSWER
from gpudoctor.envelope import Answer, Stated, encode
from gpudoctor.explain.report import Explanation, Line, LogCause
from gpudoctor.fleet.survey import Survey
from gpudoctor.folder.answer import FolderAnswer
from gpudoctor.hang.report import HangReport
from gpudoctor.knowledge.wording import counted, listed
from gpudoctor.nccl.result import TestResult
from gpudoctor.render.folder import nodes_words, part_verdict, run_words, subject_of, use_words, verdict
from gpudoctor.render.html.check import check_sheet
from gpudoctor.render.html.findings import Card, cards, to_do_first
from gpudoctor.render.html.fleet import survey_sheet
from gpudoctor.render.html.frame import MOODS, Mood, Sheet, mark, page
from gpudoctor.render.html.hang import hang_sheet
from gpudoctor.render.html.markup import Markup, Part, folded, section, table, tag
from gpudoctor.render.html.nccl_test import nccl_test_sheet
from gpudoctor.render.html.timeline import timeline
from gpudoctor.render.html.train import train_sheet
from gpudoctor.report import Report
from gpudoctor.snapshot import Snapshot
from gpudoctor.train.report import TrainReport

MOST_PARTS = 24
MOST_LINES = 60


def folder_page(
    answer: FolderAnswer, machines: Mapping[str, Snapshot] | None = None, *, saved: bool = False, hidden: bool = False
) -> bytes:  # fmt: skip
    """`machines`: the captures of the folder, for their pictures."""
    return page(folder_sheet(answer, machines or {}, saved=saved), hidden=hidden)


def folder_sheet(answer: FolderAnswer, machines: Mapping[str, Snapshot], *, saved: bool) -> Sheet:
    cards_found = [_card(stated) for stated in answer.stated()]
    own = [each for each in cards_found if each.severity != "info"]
    body: list[Part] = [_run(answer)]
    if happened := timeline(answer):
        body.append(section("What happened", happened))
    if answer.explanation is not None:
        body.append(_logs(answer.explanation))
    parts = [(name, part) for name, part in answer.parts if not isinstance(part, Explanation)]
    ill = next((number for number, (_, part) in enumerate(parts) if part.exit_status == 1), 0)
    body += [
        _part(name, part, machines.get(name), is_open=number == ill)
        for number, (name, part) in enumerate(parts[:MOST_PARTS])
    ]
    if len(parts) > MOST_PARTS:
        body.append(
            tag("p", f"and {counted(len(parts) - MOST_PARTS, 'more answer')}, which the data inside has", class_="soft")
        )
    body.append(_files(answer))
    mood: Mood = MOODS[answer.verdict_for(answer.exit_status)]
    return Sheet(
        command="report",
        verdict=verdict(answer),
        mood="warn" if mood == "good" and own else mood,
        about=answer.machine or answer.about(),
        first=to_do_first(own[0] if own else None, _restart(answer)),
        body=body,
        data={ANSWER: encode(answer)},
        saved=saved and bool(own),
    )


def _restart(answer: FolderAnswer) -> Markup | None:
    run = answer.run
    if run is None or run.restart == "not decided":
        return None
    without = f", without {listed(run.exclude)}" if run.exclude else ""
    return tag("p", f"Start it again: {run.restart}{without}.")


def _card(stated: Stated) -> Card:
    return Card(
        id=stated.id,
        severity=stated.severity,
        summary=stated.summary,
        meaning=stated.meaning or "",
        fix=stated.fix,
        evidence=tuple(f"{seen.source}: {seen.text}" for seen in stated.evidence),
        who=subject_of(stated),
        sure=f"How sure: {stated.certainty:.2f} of 1" if stated.certainty is not None else "",
    )


def _run(answer: FolderAnswer) -> Markup | None:
    if answer.run is None:
        return None
    nodes = [nodes_words(answer.run)] if answer.run.nodes else []
    lines = [run_words(answer.run), *nodes, *use_words(answer.use), *answer.run.lost]
    markup = folded("What was said at its end", tag("ul", [tag("li", line) for line in answer.run.told]))
    return section("The run", [tag("p", line) for line in lines], markup if answer.run.told else None)


def _logs(explanation: Explanation) -> Markup:
    """What `explain` says: the causes as cards, and the lines in order."""
    cards_of_causes = [_log_cause(cause, first=not number) for number, cause in enumerate(explanation.causes)]
    unknown = tag("p", tag("strong", "Undecided: "), explanation.unknown) if explanation.unknown else None
    lists = (
        ("In order", explanation.story),
        ("What follows from it", explanation.consequences),
        ("Lines that look like trouble", explanation.trouble),
    )
    return section(
        "What the logs say",
        tag("p", part_verdict(explanation)),
        unknown,
        cards(cards_of_causes),
        [_lines(title, lines) for title, lines in lists],
        [tag("p", f"{name} was not read: {why}", class_="soft") for name, why in explanation.unreadable.items()],
    )


def _log_cause(cause: LogCause, *, first: bool) -> Card:
    return Card(
        id=cause.cause,
        severity="error" if first else "info",
        summary=cause.summary,
        meaning=cause.meaning,
        fix=cause.fix,
        evidence=tuple(f"{line.file}:{line.line}: {line.text}" for line in cause.evidence),
        sure=f"How sure: {cause.confidence:.2f} of 1",
        notes=(f"To confirm: {cause.confirm}",) if cause.confirm else (),
    )


def _lines(title: str, lines: tuple[Line, ...]) -> Markup | None:
    if not lines:
        return None
    every = [
        tag("li", tag("span", f"{line.file}:{line.line} ", class_="id"), tag("code", line.text))
        for line in lines[:MOST_LINES]
    ]
    return folded(f"{title} ({counted(len(lines), 'line')})", tag("ul", every))


def _part(name: str, part: Answer, machine: Snapshot | None, *, is_open: bool) -> Markup:
    """Another command's page, without its frame."""
    sheet = _sheet(part, machine)
    title = (
        tag("span", mark(sheet.mood), class_=f"badge {sheet.mood}"),
        " ",
        tag("strong", name),
        f": {sheet.verdict}",
    )
    return section(f"gpudoctor {sheet.command}", folded(title, sheet.body, open_=is_open))


def _sheet(part: Answer, machine: Snapshot | None) -> Sheet:
    status = part.exit_status
    if isinstance(part, HangReport):
        return hang_sheet(part)
    if isinstance(part, Report):
        return check_sheet(part, machine, status=status)
    if isinstance(part, Survey):
        return survey_sheet(part, status=status)
    if isinstance(part, TestResult):
        return nccl_test_sheet(part, status=status)
    assert isinstance(part, TrainReport)
    return train_sheet(part)


def _files(answer: FolderAnswer) -> Markup | None:
    rows = [
        tag("tr", tag("td", file.name, class_="id"), tag("td", file.kind), tag("td", file.words))
        for file in answer.files[: 20 * MOST_PARTS]
    ]
    if not rows:
        return None
    title = counted(len(answer.files), "file")
    return section("What the folder holds", folded(title, table(("File", "What it is", ""), rows, label=title)))
