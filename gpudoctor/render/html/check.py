"""The answer of `gpudoctor check` as a page."""

from collections.abc import Sequence

from gpudoctor.check import Problem, Severity
from gpudoctor.culprits import OneTrouble, culprits
from gpudoctor.embedded import ANSWER, CAPTURE
from gpudoctor.envelope import encode
from gpudoctor.knowledge.wording import counted
from gpudoctor.render import words
from gpudoctor.render.gpus import FIGURES, MARKS
from gpudoctor.render.html.findings import Card, badge, cards, to_do_first
from gpudoctor.render.html.frame import MOODS, Mood, Sheet, page
from gpudoctor.render.html.markup import Markup, Part, folded, section, table, tag
from gpudoctor.render.html.node import ill_nics, picture
from gpudoctor.render.network import network_line
from gpudoctor.report import Report
from gpudoctor.snapshot import Gpu, Snapshot, to_json
from gpudoctor.topology import topology


def check_page(report: Report, snapshot: Snapshot | None, *, status: int, hidden: bool = False) -> bytes:
    return page(check_sheet(report, snapshot, status=status), hidden=hidden)


def check_sheet(report: Report, snapshot: Snapshot | None, *, status: int) -> Sheet:
    """Of a saved report there is no snapshot: it has no table of GPUs and no picture."""
    troubles = culprits([(result.check, problem) for result, problem in report.problems], lambda each: each, _gpus_of)
    every = [_card(trouble) for trouble in troubles]
    mood: Mood = MOODS[report.verdict]
    if mood == "good" and report.counts.warning:
        mood = "warn"
    body: list[Part] = []
    data = {ANSWER: encode(report, status)}
    if snapshot is not None:
        data[CAPTURE] = to_json(snapshot)
        body += _machine(report, snapshot, troubles)
    body.append(section("Findings", cards(every) or tag("p", "None.")))
    body += [_blind(report), _all(report)]
    return Sheet(
        command="check",
        verdict=words.verdict(report),
        mood=mood,
        about=report.machine or "a machine that the file does not name",
        first=to_do_first(every[0] if every else None),
        body=body,
        data=data,
        saved=snapshot is None and bool(every),
    )


def _gpus_of(problem: Problem) -> tuple[int, ...]:
    return problem.gpus


def _card(culprit: OneTrouble[Problem]) -> Card:
    leads = culprit.leads
    return Card(
        id=culprit.id,
        severity=culprit.severity,
        summary=leads.summary,
        meaning=leads.meaning,
        fix=leads.fix,
        evidence=tuple(words.evidence(reading) for reading in leads.evidence),
        others=tuple((id, other.summary) for id, other in culprit.others),
    )


def _machine(report: Report, snapshot: Snapshot, found: Sequence[OneTrouble[Problem]]) -> list[Part]:
    """What the machine is, its GPUs, its picture."""
    taken = snapshot.taken_at.value_or("")
    facts = [words.machine_line(snapshot)]
    if snapshot.training.python.is_read:
        facts.append(words.training_line(snapshot))
    facts += filter(None, (network_line(snapshot), f"Examined at {taken}" if taken else ""))
    parts: list[Part] = [section("Machine", [tag("p", fact) for fact in facts])]
    sick: dict[int, list[tuple[Severity, str]]] = {}
    for trouble in found:
        for index in trouble.leads.gpus if trouble.severity in MARKS else ():
            sick.setdefault(index, []).append((trouble.severity, trouble.leads.short))
    gpus = snapshot.nvidia.gpus.value_or(())
    if gpus:
        parts.append(section("GPUs", _gpus(gpus, sick, well=_well(report))))
    places = topology(snapshot)
    ill: dict[str, tuple[Severity, str]] = {
        f"GPU{index}": (troubles[0][0], ", ".join(dict.fromkeys(short for _, short in troubles)))
        for index, troubles in sick.items()
    }
    named = [(trouble.severity, trouble.leads.summary, trouble.leads.short or trouble.id) for trouble in found]
    ill |= ill_nics(places, named)
    drawn = picture(places, ill)
    if drawn is not None:
        parts.append(section("Where they sit", drawn))
    return parts


def _well(report: Report) -> str:
    """What is said of a GPU without trouble: no choice of checks that leaves GPUs out calls one well."""
    if report.sight.selected and "gpu" not in report.sight.selected:
        return "not asked"
    return "not wholly seen" if any(result.group == "gpu" for result in report.could_not_look) else "ok"


def _gpus(gpus: Sequence[Gpu], sick: dict[int, list[tuple[Severity, str]]], *, well: str) -> Markup:
    rows = []
    for gpu in gpus:
        troubles = sick.get(gpu.index, [])
        reasons = ", ".join(dict.fromkeys(short for _, short in troubles))
        state: Part = (badge(troubles[0][0]), " ", reasons) if troubles else well
        cells: list[Part] = [
            str(gpu.index),
            state,
            (gpu.name.value_or("") or f"({gpu.name.reason})").removeprefix("NVIDIA "),
            *(figure(gpu) for figure in FIGURES.values()),
        ]
        uuid = tag("td", gpu.uuid.value_or("?"), class_="id whole")
        line = [*(tag("td", cell, class_="whole") for cell in cells), uuid]
        rows.append(tag("tr", line, class_=troubles[0][0] if troubles else None))
    return table(["GPU", "State", "Name", *FIGURES, "UUID"], rows, label="GPUs")


def _blind(report: Report) -> Markup | None:
    by_reason: dict[str, list[str]] = {}
    for result in report.could_not_look:
        for reason in result.reasons or ("no reason given",):
            by_reason.setdefault(reason, []).append(result.check)
    if not by_reason:
        return None
    lines = [tag("li", reason, ": ", tag("span", ", ".join(names), class_="id")) for reason, names in by_reason.items()]
    return section("What could not be seen", folded(counted(len(report.could_not_look), "check"), tag("ul", lines)))


def _all(report: Report) -> Markup:
    rows = [
        tag("tr", tag("td", result.check, class_="id"), tag("td", result.outcome), tag("td", "; ".join(result.reasons)))
        for result in report.results
    ]
    return section(
        "All checks", folded(words.tally(report), table(["Check", "Outcome", "Reason"], rows, label="All checks"))
    )
