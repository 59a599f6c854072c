"""The answer of `gpudoctor train-test` as a page: ways and precisions as a matrix, faults, what is worth knowing."""

from gpudoctor.embedded import ANSWER
from gpudoctor.envelope import encode
from gpudoctor.knowledge.wording import counted, size
from gpudoctor.render.html.findings import cards, to_do_first
from gpudoctor.render.html.frame import MOODS, Sheet, page
from gpudoctor.render.html.markup import Markup, Part, folded, section, table, tag
from gpudoctor.render.html.nccl_test import ORDER, finding_card
from gpudoctor.render.train import closing_words, seconds_words, started_lines
from gpudoctor.train.report import Cell, TrainReport

SHADES = {
    "passed": "is-ok",
    "failed": "is-error",
    "hung": "is-error",
    "crashed": "is-error",
    "not reached": "is-unseen",
}
SIGNS = {"passed": "✓", "failed": "✕", "hung": "✕", "crashed": "✕", "not reached": "?"}


def train_page(report: TrainReport, *, saved: bool = False, hidden: bool = False) -> bytes:
    return page(train_sheet(report, saved=saved), hidden=hidden)


def train_sheet(report: TrainReport, *, saved: bool = False) -> Sheet:
    findings = [*report.findings, *(cell.finding for cell in report.cells if cell.finding is not None)]
    every = [
        finding_card(finding) for finding in sorted(findings, key=lambda finding: ORDER.index(finding.problem.severity))
    ]
    body: list[Part] = []
    if said := started_lines(report):
        body.append(section("What was run", [tag("p", line) for line in said]))
    if report.cells:
        body.append(section("Ways of training", _matrix(report), _reasons(report), _notes(report)))
    if every:
        body.append(section("Findings", cards(every)))
    return Sheet(
        command="train-test",
        verdict=closing_words(report),
        mood=MOODS[report.verdict_for(report.exit_status)],
        about=report.machine or report.about(),
        first=to_do_first(every[0] if every else None),
        body=body,
        data={ANSWER: encode(report)},
        saved=saved and bool(every),
    )


def _matrix(report: TrainReport) -> Markup:
    precisions = list(dict.fromkeys(cell.precision for cell in report.cells))
    ways: dict[str, dict[str, Cell]] = {}
    for cell in report.cells:
        ways.setdefault(cell.way, {})[cell.precision] = cell
    rows = [
        tag("tr", tag("th", way, scope="row"), [_cell(cells.get(precision)) for precision in precisions])
        for way, cells in ways.items()
    ]
    return tag("div", table(["", *precisions], rows, label="Ways and precisions"), class_="heat")


def _cell(cell: Cell | None) -> Markup:
    if cell is None:
        return tag("td")
    words = f"{SIGNS.get(cell.outcome, '')} {cell.outcome}".strip()
    trained = cell.trained
    step = f" {seconds_words(trained.step_seconds)} a step" if trained and trained.step_seconds is not None else ""
    peak = f", {size(max(trained.peak_bytes.values()))}" if trained and trained.peak_bytes else ""
    more = tag("span", f"{step}{peak}", class_="soft") if step or peak else None
    return tag("td", words, more, class_=f"cell {SHADES[cell.outcome]}" if cell.outcome in SHADES else "soft")


def _reasons(report: TrainReport) -> Markup | None:
    """Why cells do not apply or were not reached, those with one reason together."""
    by_reason: dict[str, list[str]] = {}
    for cell in report.cells:
        if cell.reason and cell.finding is None:
            by_reason.setdefault(f"{cell.outcome}: {cell.reason}", []).append(f"{cell.way} {cell.precision}")
    return _listed("Why not", by_reason)


def _notes(report: TrainReport) -> Markup | None:
    by_note: dict[str, list[str]] = {}
    for cell in report.cells:
        for note in cell.trained.notes if cell.trained is not None else ():
            by_note.setdefault(note, []).append(f"{cell.way} {cell.precision}")
    return _listed("Worth knowing", by_note)


def _listed(title: str, by_text: dict[str, list[str]]) -> Markup | None:
    lines = [tag("li", tag("strong", ", ".join(cells)), f": {text}") for text, cells in by_text.items()]
    return folded(f"{title} ({counted(len(lines), 'line')})", tag("ul", lines)) if lines else None
