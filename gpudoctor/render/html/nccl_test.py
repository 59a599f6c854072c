"""The answer of `gpudoctor nccl-test` as a page: the curves, pairs of nodes as a matrix, settings, findings."""

import math
from collections.abc import Iterable, Sequence

from gpudoctor.embedded import ANSWER
from gpudoctor.envelope import encode
from gpudoctor.knowledge.shapes import is_host
from gpudoctor.nccl.compare_settings import words as settings_words
from gpudoctor.nccl.finding import Finding
from gpudoctor.nccl.rank_messages import Row
from gpudoctor.nccl.result import Grade, Isolation, IsolationRound, TestResult
from gpudoctor.render import words
from gpudoctor.render.html.curves import Curve, curves
from gpudoctor.render.html.findings import Card, cards, lines, to_do_first
from gpudoctor.render.html.frame import MOODS, Mood, Sheet, page
from gpudoctor.render.html.markup import Markup, Part, folded, section, table, tag
from gpudoctor.render.nccl_test import closing_words, culprit_words, skipped_line, started_lines, world_line

ORDER = ("error", "warning", "info")
GRADES: dict[str, str] = {"healthy": "good", "degraded": "warn", "broken": "bad", "misconfigured": "bad"}
WELL, POOR = 0.9, 0.7
"""Parts of the best pair of its round from which a pair is called near it, and slow: a shade, no verdict."""
MOST_IN_MATRIX = 64


def nccl_test_page(result: TestResult, *, status: int, saved: bool = False, hidden: bool = False) -> bytes:
    return page(nccl_test_sheet(result, status=status, saved=saved), hidden=hidden)


def nccl_test_sheet(result: TestResult, *, status: int, saved: bool = False) -> Sheet:
    findings = sorted(result.findings, key=lambda finding: ORDER.index(finding.problem.severity))
    every = [finding_card(finding) for finding in findings]
    body: list[Part] = [_run(result)]
    body += _bandwidth(result)
    if result.compared:
        body.append(section("Settings compared", _compared(result), tag("p", tag("strong", result.comparison))))
    if result.isolation is not None:
        body.append(section("Which one is slow", _isolation(result.isolation)))
    if every:
        body.append(section("Findings", cards(every)))
    return Sheet(
        command="nccl-test",
        verdict=closing_words(result),
        mood=_mood(result, status),
        about=result.machine or result.about(),
        first=_first(result, every),
        body=body,
        data={ANSWER: encode(result, status)},
        saved=saved and bool(every),
    )


def finding_card(finding: Finding) -> Card:
    problem = finding.problem
    evidence = tuple(words.evidence(reading) for reading in problem.evidence)
    return Card(finding.id, problem.severity, problem.summary, problem.meaning, problem.fix, evidence)


def _mood(result: TestResult, status: int) -> Mood:
    mood = MOODS[result.verdict_for(status)]
    return (
        "warn" if mood == "good" and any(finding.problem.severity == "warning" for finding in result.findings) else mood
    )


def _first(result: TestResult, every: Sequence[Card]) -> Markup | None:
    if result.isolation is not None and result.isolation.exclude:
        what = tag("p", tag("strong", "Leave them out of the job"), f": {result.isolation.summary}")
        names = [name for name in result.isolation.exclude if is_host(name)]  # whoever wrote a file chose its names
        line = lines([f"--exclude={','.join(names)}"]) if names else None
        return tag("section", tag("h2", "What to do first"), what, line, class_="card first")
    return to_do_first(every[0] if every else None)


def _run(result: TestResult) -> Markup | None:
    said = started_lines(result) if result.ranks_per_node else []
    said += [world_line(member) for member in (result.run.members[:1] if result.run else ())]
    return section("What was run", [tag("p", line) for line in said]) if said else None


def _bandwidth(result: TestResult) -> list[Part]:
    rows = result.run.rows if result.run else ()
    expected = {grade.collective: grade.expected for grade in result.grades}
    by_collective: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        by_collective.setdefault(row.collective, []).append((row.size_bytes, row.bus_bandwidth))
    drawn = curves([Curve(name, tuple(points), expected.get(name)) for name, points in by_collective.items()])
    skipped = [tag("p", skipped_line(skipped).removeprefix("# "), class_="soft")
               for skipped in (result.run.skipped if result.run else ())]  # fmt: skip
    parts: list[Part] = [tag("div", map(_grade, result.grades)), drawn, skipped]
    if rows:
        titles = ("Collective", "Bytes", "Slowest rank, us", "Mean, us", "algbw GB/s", "busbw GB/s", "Wrong")
        parts.append(folded("All rows", table(titles, map(_row, rows), label="All rows")))
    return [section("Bandwidth", parts)] if rows or result.grades else []


def _row(row: Row) -> Markup:
    cells: tuple[Part, ...] = (
        row.collective,
        row.size_bytes,
        f"{row.maximum_us:g}",
        f"{row.mean_us:g}",
        f"{row.algorithm_bandwidth:g}",
        f"{row.bus_bandwidth:g}",
        "not checked" if row.wrong is None else row.wrong,
    )
    return tag("tr", [tag("td", cell, class_="whole") for cell in cells], class_="error" if row.wrong else None)


def _grade(grade: Grade) -> Markup:
    reached = f"{grade.collective} {grade.measured:g} GB/s bus bandwidth over {grade.link}"
    wanted = f"Such machines reach {grade.expected:g} GB/s ({grade.source})." if grade.expected is not None else ""
    mark = tag("span", grade.verdict, class_=f"badge {GRADES.get(grade.verdict, 'unknown')}")
    return tag(
        "article",
        tag("p", mark, " ", tag("strong", reached)),
        tag("p", wanted) if wanted else None,
        tag("p", grade.reason, class_="soft") if grade.reason else None,
        class_="card",
    )


def _compared(result: TestResult) -> Markup:
    names = list(dict.fromkeys(name for compared in result.compared for name in compared.bus_bandwidth))
    best = {name: max(compared.bus_bandwidth.get(name, 0.0) for compared in result.compared) for name in names}
    rows = []
    for compared in result.compared:
        cells = []
        for name in names or [""]:
            value = compared.bus_bandwidth.get(name)
            part = value / best[name] if value and best.get(name) else 0.0
            text = compared.outcome if value is None else f"{value:.3g} GB/s ({part:.0%})"
            cells.append(tag("td", text, class_=_shade(part if value is not None else None)))
        rows.append(tag("tr", tag("th", settings_words(compared.settings) or "as it is", scope="row"), cells))
    return table(["Settings", *names], rows, label="Settings compared")


def _shade(part: float | None) -> str:
    """Of a bandwidth, as a part of the best: None is one that hung or died."""
    return "cell is-error" if part is None or part < POOR else "cell is-warning" if part < WELL else "cell is-ok"


def _isolation(isolation: Isolation) -> list[Part]:
    guilty = [tag("li", culprit_words(culprit)) for culprit in isolation.culprits]
    parts: list[Part] = [tag("p", tag("strong", isolation.summary)), tag("ul", guilty) if guilty else None]
    pairs = [
        isolation_round
        for isolation_round in isolation.rounds
        if all(len(group) == 2 for group in isolation_round.groups)
    ]
    nodes = list(
        dict.fromkeys(
            node for isolation_round in isolation.rounds for group in isolation_round.groups for node in group
        )
    )
    if pairs:
        bad = {node for culprit in isolation.culprits for node in culprit.nodes}
        parts.append(_matrix(_worst(nodes, pairs, bad), pairs, bad))
        if len(nodes) > MOST_IN_MATRIX:
            rest = f"The {MOST_IN_MATRIX} nodes of {len(nodes)} that are named, or whose pairs were the slowest."
            parts.append(tag("p", rest, class_="soft"))
    return [*parts, folded("All rounds", [_round(isolation_round) for isolation_round in isolation.rounds])]


def _worst(nodes: Sequence[str], pairs: Iterable[IsolationRound], bad: set[str]) -> list[str]:
    """Those that a matrix has room for: who is named, and who was in the slowest pairs."""
    if len(nodes) <= MOST_IN_MATRIX:
        return sorted(nodes)
    slowest: dict[str, float] = {}
    for pair in pairs:
        for group, value in zip(pair.groups, pair.bus_bandwidth, strict=True):
            for node in group:
                slowest[node] = min(slowest.get(node, math.inf), value or 0.0)
    return sorted(sorted(nodes, key=lambda node: (node not in bad, slowest.get(node, math.inf)))[:MOST_IN_MATRIX])


def _matrix(nodes: Sequence[str], pairs: Iterable[IsolationRound], bad: set[str]) -> Markup:
    """Pairs of nodes: what each reached, against the best of all pairs; what was not tried is empty."""
    reached: dict[frozenset[str], float | None] = {}
    for isolation_round in pairs:
        reached |= {
            frozenset(group): value
            for group, value in zip(isolation_round.groups, isolation_round.bus_bandwidth, strict=True)
        }
    best = max((value for value in reached.values() if value), default=0.0)
    rows = []
    for row in nodes:
        cells = []
        for column in nodes:
            pair = frozenset((row, column))
            if pair not in reached or row == column:
                cells.append(tag("td"))
                continue
            value = reached[pair]
            text = "✕" if value is None else f"{value:.3g}"
            cells.append(tag("td", text, class_=_shade(value / best if value is not None and best else None)))
        rows.append(tag("tr", tag("th", row, " ✕" if row in bad else "", scope="row"), cells))
    note = "GB/s of each pair that was tried, against the best of them; ✕: it hung or died, or a node that is named."
    return tag("div", table(["", *nodes], rows, label="Pairs of nodes"), tag("p", note, class_="soft"), class_="heat")


def _round(done: IsolationRound) -> Markup:
    rows = [
        tag("tr", tag("td", " - ".join(group)), tag("td", "it hung or died" if value is None else f"{value:.3g} GB/s"))
        for group, value in zip(done.groups, done.bus_bandwidth, strict=True)
    ]
    return table([done.purpose, "Bus bandwidth"], rows, label=done.purpose)
