"""`Survey`: several machines examined at once, as published by `gpudoctor check --hosts ... --json`."""

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Literal

from msgspec import Struct

from gpudoctor.check import Problem, Severity
from gpudoctor.envelope import Answer, Stated, Verdict, stated, subject
from gpudoctor.fleet.compare import AlikeNodes, Difference
from gpudoctor.fleet.names import folded
from gpudoctor.lazy import lazy_re
from gpudoctor.severity import WORST_FIRST

_VARYING = lazy_re(r"[0-9a-fA-F]*\d[\w:.-]*")
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


class Survey(Answer, frozen=True, kw_only=True):
    """What is wrong with which nodes, and in what they differ."""

    command: ClassVar[str] = "check --hosts"
    signs: ClassVar[tuple[str, ...]] = ("examined", "differences")
    reached_by: str = ""
    nodes: tuple[str, ...]
    examined: tuple[str, ...]
    unexamined: tuple[Unexamined, ...] = ()
    differences: tuple[Difference, ...] = ()
    problems: tuple[NodesProblem, ...] = ()
    """Errors first."""
    blind: tuple[AlikeNodes, ...] = ()
    """Checks that could not look: "id: reason" and the nodes."""
    selected: tuple[str, ...] = ()
    """The checks and groups that were asked for; (): all."""
    lacking: tuple[AlikeNodes, ...] = ()
    """What decides and was not seen, and on which nodes."""
    left_out: tuple[str, ...] = ()
    """What nobody asked for: ("torch",) with --no-torch."""
    seconds: float = 0.0

    @property
    def verdict(self) -> Literal["ready", "not ready", "cannot tell", "nothing wrong"]:
        """As `gpudoctor.report.Verdict`, of all nodes together; a node that was not examined is not ready."""
        if self.unexamined or self.count("error"):
            return "not ready"
        if self.lacking or not self.examined:
            return "cannot tell"
        return "nothing wrong" if self.selected or self.left_out else "ready"

    def count(self, severity: Severity) -> int:
        return sum(problem.problem.severity == severity for problem in self.problems)

    def status(self, *, strict: bool = False) -> int:
        """0 nothing wrong, and what decides was seen; 1 errors, or a node that was not examined; 3 cannot tell."""
        if self.verdict == "not ready" or (strict and (self.count("warning") or self.differences)):
            return 1
        if self.verdict == "cannot tell":
            return 3
        return int(strict and bool(self.blind))

    @property
    def exit_status(self) -> int:
        """Without --strict."""
        return self.status()

    def verdict_for(self, exit_status: int) -> Verdict:
        return self.verdict

    def about(self) -> str:
        return folded(self.nodes)

    def stated(self) -> Iterator[Stated]:
        for lost in self.unexamined:
            yield stated(lost.id, lost.problem, subject(nodes=lost.nodes))
        for problem in self.problems:
            yield stated(problem.check, problem.problem, subject(nodes=problem.nodes, gpus=problem.problem.gpus))
        for difference in self.differences:
            yield Stated(
                id=difference.id, severity="warning", subject=subject(nodes=difference.odd), summary=difference.words
            )


def folded_problems(problems: Iterable[tuple[str, str, Problem]]) -> tuple[NodesProblem, ...]:
    """(node, check, problem) of all nodes: those that differ in numbers only become one."""
    every = list(problems)
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
    return tuple(sorted(made, key=lambda problem: (WORST_FIRST[problem.problem.severity], -len(problem.nodes))))


def folded_reasons(found: Mapping[str, Iterable[str]]) -> tuple[AlikeNodes, ...]:
    """Reasons by node -> nodes by reason, the most common first."""
    groups: dict[str, list[str]] = {}
    for node, reasons in found.items():
        for reason in dict.fromkeys(reasons):
            groups.setdefault(reason, []).append(node)
    return tuple(
        AlikeNodes(reason, tuple(nodes)) for reason, nodes in sorted(groups.items(), key=lambda item: -len(item[1]))
    )
