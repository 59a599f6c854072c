"""`Finding`: a problem of several machines, or of their test, with the nodes and ranks it concerns."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct, structs

from gpudoctor.check import Fix, Problem, Severity
from gpudoctor.command import Command
from gpudoctor.envelope import Stated, stated, subject
from gpudoctor.snapshot import Reading


class Finding(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`id` names the fault ("ports-blocked-between-nodes") and has its entry in docs/nccl-test.md."""

    id: str
    problem: Problem
    nodes: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()

    def stated(self) -> Stated:
        """As every command publishes it; one that is a cause's says class, blame and restart too."""
        from gpudoctor.causes import CAUSES  # takes time, and only an answer as JSON needs it

        about = subject(nodes=self.nodes, ranks=self.ranks, gpus=self.problem.gpus)
        statement = stated(self.id, self.problem, about)
        if self.id not in CAUSES:
            return statement
        judged = CAUSES[self.id].judge()
        return structs.replace(statement, kind=judged.kind, blame=judged.blame, restart=judged.restart)


def finding(
    id: str,
    severity: Severity,
    summary: str,
    *,
    meaning: str,
    fix: Fix | str,
    commands: tuple[Command, ...] = (),
    evidence: tuple[Reading[Any], ...] = (),
    nodes: Sequence[str] = (),
    ranks: Sequence[int] = (),
    gpus: tuple[int, ...] = (),
) -> Finding:
    """A `Finding` in one call; `commands` are those of a fix that is given as its text."""
    problem = Problem(
        severity=severity,
        summary=summary,
        meaning=meaning,
        fix=Fix(fix, commands=commands) if isinstance(fix, str) else fix,
        evidence=evidence,
        gpus=gpus,
    )
    return Finding(id=id, problem=problem, nodes=tuple(nodes), ranks=tuple(ranks))


def has_errors(findings: tuple[Finding, ...]) -> bool:
    return any(finding.problem.severity == "error" for finding in findings)
