"""The answer of `gpudoctor check --hosts` as a page: nodes and checks as a heat map, what differs, and the findings."""

from typing import NamedTuple

from gpudoctor.culprits import OneTrouble, culprits
from gpudoctor.embedded import ANSWER
from gpudoctor.envelope import encode
from gpudoctor.fleet.names import LONGEST, briefly, folded
from gpudoctor.fleet.survey import NodesProblem, Survey
from gpudoctor.knowledge.wording import counted
from gpudoctor.render import words
from gpudoctor.render.fleet import places_of, verdict, what_of, who_of
from gpudoctor.render.html.findings import Card, cards, to_do_first
from gpudoctor.render.html.frame import MOODS, Sheet, page
from gpudoctor.render.html.markup import Markup, Part, folded as opened, section, table, tag
from gpudoctor.render.html.squares import Square, squares

SIGNS = {"error": "✕", "warning": "!", "info": "i", "differs": "≠", "unseen": "?", "lost": "-", "": ""}
WORDS = {"error": "error", "warning": "warning", "info": "worth knowing", "differs": "differs from most nodes",
         "unseen": "could not look", "lost": "not examined", "": "nothing found"}  # fmt: skip
WORST_FIRST = ("lost", "error", "warning", "differs", "unseen", "info", "")
NOT_EXAMINED = "not examined"
MOST_COLUMNS = 60
SHORT = 40
"""Of the names in front of a row: the columns are to be seen beside them."""


def survey_page(survey: Survey, *, status: int, saved: bool = False, hidden: bool = False) -> bytes:
    return page(survey_sheet(survey, status=status, saved=saved), hidden=hidden)


def survey_sheet(survey: Survey, *, status: int, saved: bool = False) -> Sheet:
    nodes = len(survey.examined)
    gathered = culprits(
        [(problem.check, problem) for problem in survey.problems],
        lambda nodes_problem: nodes_problem.problem,
        places_of,
    )
    lost = [Card(gone.id, gone.problem.severity, gone.problem.summary, gone.problem.meaning, gone.problem.fix,
                 tuple(words.evidence(reading) for reading in gone.problem.evidence))
            for gone in survey.unexamined]  # fmt: skip
    every = [*lost, *(_card(trouble, nodes) for trouble in gathered)]
    mood = MOODS[survey.verdict]
    if mood == "good" and (survey.count("warning") or survey.differences):
        mood = "warn"
    body: list[Part] = [
        section("Nodes", _map(survey)),
        section("Findings", cards(every) or tag("p", "None.")),
        _list("What differs from most nodes", [difference.words for difference in survey.differences]),
        _list(
            "What could not be seen",
            [f"{folded(alike_nodes.nodes)}: {alike_nodes.value}" for alike_nodes in survey.blind],
        ),
    ]
    return Sheet(
        command="check",
        verdict=verdict(survey),
        mood=mood,
        about=f"{survey.about()}, {counted(nodes, 'node')} examined in {survey.seconds:.1f} s",
        first=to_do_first(every[0] if every else None),
        body=body,
        data={ANSWER: encode(survey, status)},
        saved=saved and bool(every),
    )


def _card(gathered: OneTrouble[NodesProblem], nodes: int) -> Card:
    nodes_problem, problem = gathered.leads, gathered.leads.problem
    own = tuple(f"{node}: {summary}" for node, summary in nodes_problem.summaries.items())
    on = (
        f"The lines hold the values of {nodes_problem.nodes[0]}."
        if len(nodes_problem.nodes) > 1 and problem.fix.commands
        else ""
    )
    who = who_of(nodes_problem, nodes)
    short = briefly(nodes_problem.nodes) if len(who) > LONGEST else who
    every = (f"on {who}",) if short != who else ()
    return Card(
        id=gathered.id,
        severity=gathered.severity,
        summary=what_of(nodes_problem),
        meaning=problem.meaning,
        fix=problem.fix,
        evidence=(*every, *own, *(words.evidence(reading) for reading in problem.evidence)),
        who=short,
        notes=(on,) if on else (),
        others=tuple((id, f"{who_of(other, nodes)}: {what_of(other)}") for id, other in gathered.others),
    )


class _Row(NamedTuple):
    """Nodes that have the same in every column."""

    cells: tuple[str, ...]
    nodes: tuple[str, ...]

    @property
    def worst(self) -> str:
        return min(self.cells, key=WORST_FIRST.index, default="")


def _map(survey: Survey) -> list[Part]:
    """A row for nodes that are alike, the worst first; a square a node where there are many."""
    every_column, cells = _cells(survey)
    columns = every_column[:MOST_COLUMNS]
    if len(every_column) > len(columns):
        others = f"{len(every_column) - len(columns)} others"
        for node in survey.nodes:
            rest = [cells.get((node, column), "") for column in every_column[len(columns) :]]
            cells[node, others] = min(rest, key=WORST_FIRST.index)
        columns.append(others)
    alike: dict[tuple[str, ...], list[str]] = {}
    for node in survey.nodes:
        alike.setdefault(tuple(cells.get((node, column), "") for column in columns), []).append(node)
    every = [_Row(signs, tuple(nodes)) for signs, nodes in alike.items()]
    rows = sorted(every, key=lambda row: (WORST_FIRST.index(row.worst), len(row.nodes)))
    parts: list[Part] = []
    if len(survey.nodes) > len(rows) > 0:
        kinds = {node: row.worst for row in rows for node in row.nodes}
        each = [Square(SIGNS[kinds[node]], f"{node}: {WORDS[kinds[node]]}", f"is-{kinds[node] or 'ok'}")
                for node in survey.nodes]  # fmt: skip
        parts.append(squares(f"{counted(len(each), 'node')} by the worst that was found", each))
    if columns:
        titles: list[Part] = ["Nodes", "", *(tag("span", column, class_="upright") for column in columns)]
        parts.append(tag("div", table(titles, map(_line, rows), label="Nodes and checks"), class_="heat"))
    used = {sign for row in rows for sign in row.cells} - {""}
    legend = [f"{SIGNS[kind]} {WORDS[kind]}" for kind in WORST_FIRST if kind in used]
    parts.append(tag("p", ", ".join(legend) if legend else "Nothing was found on any of them.", class_="soft"))
    return parts


def _line(row: _Row) -> Markup:
    whole, short = folded(row.nodes), briefly(row.nodes, SHORT)
    return tag(
        "tr",
        tag("th", short, scope="row", title=whole if whole != short else None),
        tag("td", counted(len(row.nodes), "node") if len(row.nodes) > 1 else "", class_="soft whole"),
        [tag("td", SIGNS[cell], class_=f"cell is-{cell}" if cell else "cell", title=WORDS[cell]) for cell in row.cells],
    )


def _cells(survey: Survey) -> tuple[list[str], dict[tuple[str, str], str]]:
    """The columns (checks that found something, errors first), and (node, column) -> what; the worst of a check."""
    cells: dict[tuple[str, str], str] = {}
    columns: dict[str, None] = {}

    def put(nodes: tuple[str, ...], column: str, kind: str) -> None:
        columns.setdefault(column)
        for node in nodes:
            old = cells.get((node, column), "")
            cells[node, column] = min(kind, old, key=WORST_FIRST.index)

    for lost in survey.unexamined:
        put(lost.nodes, NOT_EXAMINED, "lost")
    for problem in survey.problems:
        put(problem.nodes, problem.check, problem.problem.severity)
    for difference in survey.differences:
        put(difference.odd, difference.id, "differs")
    for blind in survey.blind:
        put(blind.nodes, blind.value.partition(":")[0], "unseen")
    return list(columns), cells


def _list(title: str, lines: list[str]) -> Markup | None:
    every = [tag("li", line) for line in lines]
    return section(title, opened(counted(len(every), "line"), tag("ul", every))) if every else None
