"""`Survey`: several machines examined at once, as published by `gpudoctor check --hosts ... --json`."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from gpudoctor.check import Problem, Severity
from gpudoctor.fleet.compare import AlikeNodes, Difference

SCHEMA = 1
"""Number of the layout."""
SEVERITIES: dict[Severity, int] = {"error": 0, "warning": 1, "info": 2}
_VARYING = re.compile(r"[0-9a-fA-F]*\d[\w:.-]*")
"""Numbers, addresses and identifiers: in what two nodes' summaries of one fault differ."""


class NodesProblem(Struct, frozen=True, kw_only=True):
    """One fault, and the nodes that have it."""

    check: str
    nodes: tuple[str, ...]
    problem: Problem
    """As the first of the nodes has it."""
    summaries: dict[str, str] = {}
    """Each node's own, where they are not all alike."""


class Unexamined(Struct, frozen=True, kw_only=True):
    """Nodes that nothing is known of, and why."""

    id: str
    nodes: tuple[str, ...]
    problem: Problem


class Survey(Struct, frozen=True, kw_only=True):
    """What is wrong with which nodes, and in what they differ."""

    schema: int = SCHEMA
    gpudoctor: str = ""
    reached_by: str = ""
    nodes: tuple[str, ...]
    examined: tuple[str, ...]
    unexamined: tuple[Unexamined, ...] = ()
    differences: tuple[Difference, ...] = ()
    problems: tuple[NodesProblem, ...] = ()
    """Errors first."""
    blind: tuple[AlikeNodes, ...] = ()
    """Checks that could not look: "id: reason" and the nodes."""
    seconds: float = 0.0

    def count(self, severity: Severity) -> int:
        return sum(each.problem.severity == severity for each in self.problems)

    def exit_status(self, *, strict: bool = False) -> int:
        """0 healthy (warnings allowed, unless `strict`), 1 errors or a node that was not examined, 2 none was."""
        if not self.examined:
            return 2
        if self.unexamined or self.count("error"):
            return 1
        return int(strict and bool(self.count("warning") or self.blind or self.differences))


def folded_problems(found: Iterable[tuple[str, str, Problem]]) -> tuple[NodesProblem, ...]:
    """(node, check, problem) of all nodes: those that differ in numbers only become one."""
    every = list(found)
    names = {node for node, _, _ in every}
    groups: dict[tuple[str, Severity, str], list[tuple[str, Problem]]] = {}
    for node, check, problem in every:
        words = ("#" if word in names else word for word in problem.summary.split())
        alike = _VARYING.sub("#", " ".join(words))
        groups.setdefault((check, problem.severity, alike), []).append((node, problem))
    made = []
    for (check, _, _), members in groups.items():
        nodes = tuple(dict.fromkeys(node for node, _ in members))
        texts = {problem.summary for _, problem in members}
        summaries: dict[str, list[str]] = {}
        if len(texts) > 1:
            for node, problem in members:
                summaries.setdefault(node, []).append(problem.summary)
        made.append(
            NodesProblem(
                check=check,
                nodes=nodes,
                problem=members[0][1],
                summaries={node: "; ".join(lines) for node, lines in summaries.items()},
            )
        )
    return tuple(sorted(made, key=lambda each: (SEVERITIES[each.problem.severity], -len(each.nodes))))


def folded_reasons(found: Mapping[str, Iterable[str]]) -> tuple[AlikeNodes, ...]:
    """Reasons by node -> nodes by reason, the most common first."""
    groups: dict[str, list[str]] = {}
    for node, reasons in found.items():
        for reason in dict.fromkeys(reasons):
            groups.setdefault(reason, []).append(node)
    return tuple(
        AlikeNodes(reason, tuple(nodes)) for reason, nodes in sorted(groups.items(), key=lambda item: -len(item[1]))
    )


def to_json(survey: Survey) -> bytes:
    """As JSON, indented like a report."""
    return msgspec.json.format(msgspec.json.encode(survey), indent=2)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a survey."""
    return msgspec.json.schema(Survey)
