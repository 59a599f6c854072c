"""`Finding`: a problem of several machines, or of their test, with the nodes and ranks it concerns."""

from msgspec import Struct

from gpudoctor.check import Problem


class Finding(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`id` names the fault ("ports-blocked-between-nodes") and has its entry in docs/nccl-test.md."""

    id: str
    problem: Problem
    nodes: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()


def has_errors(findings: tuple[Finding, ...]) -> bool:
    return any(finding.problem.severity == "error" for finding in findings)
