"""The `Report`: what the checks said of a snapshot, its verdict and exit status, to and from JSON."""

from typing import Any, Literal

import msgspec
from msgspec import Struct

from gpudoctor.check import Problem, Severity, without_lines

SCHEMA = 1
"""Number of the report's JSON layout."""

Outcome = Literal["ok", "problem", "skipped", "not-applicable", "not-run", "crashed"]
"""ok:             everything the check wanted was read, and is healthy.
problem:        at least one problem; `reasons` may name what could not be read besides.
skipped:        something it wanted could not be read; never green.
not-applicable: this machine has no such thing.
not-run:        an active test that nobody asked for.
crashed:        the check itself failed: a bug in it, and as good as skipped.
"""

Verdict = Literal["healthy", "warnings", "errors", "unknown"]
"""unknown: nothing could be examined."""


class Result(Struct, frozen=True, omit_defaults=True):
    """What one check said."""

    check: str
    group: str
    title: str
    outcome: Outcome
    problems: tuple[Problem, ...] = ()
    reasons: tuple[str, ...] = ()
    """Why it is skipped, not applicable, not run or crashed."""


class Counts(Struct, frozen=True):
    """Problems by severity, and checks by the other outcomes."""

    error: int
    warning: int
    info: int
    ok: int
    skipped: int
    not_applicable: int
    not_run: int
    crashed: int


class Report(Struct, frozen=True):
    """The results of all checks over one snapshot, in the order of the checks."""

    results: tuple[Result, ...]
    gpudoctor: str = ""
    machine: str = ""
    """One line: what was examined."""
    schema: int = SCHEMA

    @property
    def problems(self) -> list[tuple[Result, Problem]]:
        """Every problem with the result it stands in, errors first, otherwise in the order of the checks."""
        order: dict[Severity, int] = {"error": 0, "warning": 1, "info": 2}
        found = [(result, problem) for result in self.results for problem in result.problems]
        return sorted(found, key=lambda pair: order[pair[1].severity])

    @property
    def counts(self) -> Counts:
        outcomes = [result.outcome for result in self.results]
        severities = [problem.severity for result in self.results for problem in result.problems]
        return Counts(
            error=severities.count("error"),
            warning=severities.count("warning"),
            info=severities.count("info"),
            ok=outcomes.count("ok"),
            skipped=outcomes.count("skipped"),
            not_applicable=outcomes.count("not-applicable"),
            not_run=outcomes.count("not-run"),
            crashed=outcomes.count("crashed"),
        )

    @property
    def could_not_look(self) -> list[Result]:
        """The results that could not see all they wanted: skipped, crashed, and problems with reasons besides."""
        return [
            result
            for result in self.results
            if result.outcome in ("skipped", "crashed") or (result.outcome == "problem" and result.reasons)
        ]

    @property
    def verdict(self) -> Verdict:
        counts = self.counts
        if counts.error:
            return "errors"
        if counts.warning:
            return "warnings"
        return "healthy" if any(result.outcome in ("ok", "problem") for result in self.results) else "unknown"

    def exit_status(self, *, strict: bool = False) -> int:
        """0 healthy (warnings allowed), 1 errors (`strict`: warnings and skipped checks too), 2 nothing examined."""
        verdict = self.verdict
        if verdict == "unknown":
            return 2
        return int(verdict == "errors" or (strict and (verdict == "warnings" or bool(self.could_not_look))))

    def nagios_status(self, *, strict: bool = False, is_blind: bool = False) -> int:
        """Nagios' 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN; with `strict`, all that fails is CRITICAL.

        `is_blind`: what decides could not be read (`gpudoctor.diagnose.unseen`); that is UNKNOWN, unless something that
        was read is CRITICAL anyway.
        """
        if is_blind and not (self.verdict == "errors" or (strict and self.verdict == "warnings")):
            return 3
        if strict and self.exit_status(strict=True) == 1:
            return 2
        return {"healthy": 0, "warnings": 1, "errors": 2, "unknown": 3}[self.verdict]


class Published(Struct, frozen=True):
    """The report as JSON readers get it: with its verdict and counts spelled out."""

    schema: int
    gpudoctor: str
    machine: str
    verdict: Verdict
    counts: Counts
    results: tuple[Result, ...]


def to_json(report: Report, *, indent: int = 2) -> bytes:
    """The report as JSON; its schema is published in docs/schemas/report.json."""
    published = Published(
        schema=report.schema,
        gpudoctor=report.gpudoctor,
        machine=report.machine,
        verdict=report.verdict,
        counts=report.counts,
        results=report.results,
    )
    return msgspec.json.format(msgspec.json.encode(published), indent=indent)


def from_json(raw: bytes) -> Report:
    """Read a report written by `to_json`. Raises `msgspec.DecodeError` for anything else."""
    published = msgspec.json.decode(raw, type=Published)
    return Report(
        tuple(map(without_lines, published.results)),
        gpudoctor=published.gpudoctor,
        machine=published.machine,
        schema=published.schema,
    )


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a report."""
    return msgspec.json.schema(Published)
