"""The `Report`: what the checks said of a snapshot, its verdict and exit status."""

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from msgspec import Struct

from gpudoctor.check import Problem, Severity
from gpudoctor.envelope import Answer, Stated, Verdict as AnyVerdict, stated

Outcome = Literal["ok", "problem", "skipped", "not-applicable", "not-run", "crashed"]
"""ok:             everything the check wanted was read, and is healthy.
problem:        at least one problem; `reasons` may name what could not be read besides.
skipped:        something it wanted could not be read; never green.
not-applicable: this machine has no such thing.
not-run:        an active test that nobody asked for.
crashed:        the check itself failed: a bug in it, and as good as skipped.
"""

Verdict = Literal["ready", "not ready", "cannot tell", "nothing wrong"]
"""ready:         what decides was seen, and there is no error.
not ready:     there is an error.
cannot tell:   no error was seen, and not all of what decides (`Sight.lacking`).
nothing wrong: no error in what was looked at, which by choice or by the file's kind is a part of the machine.
"""


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


class Sight(Struct, frozen=True, omit_defaults=True):
    """What a verdict rests on: of what it speaks, and what decides and was not seen (gpudoctor.deciding)."""

    selected: tuple[str, ...] = ()
    """The checks and groups that were asked for; (): all."""
    seen: tuple[str, ...] = ()
    """The parts of the machine that it speaks of: "GPUs", "torch", "host", "network"."""
    left_out: tuple[str, ...] = ()
    """The other parts."""
    why_left_out: str = ""
    lacking: tuple[str, ...] = ()
    """What decides and was not seen: phrases with the reason."""
    on_cpu: bool = False
    """The CPU is what is meant to train."""


class Report(Answer, frozen=True):
    """The results of all checks over one snapshot, in the order of the checks."""

    command: ClassVar[str] = "check"
    signs: ClassVar[tuple[str, ...]] = ("verdict", "results")
    derived: ClassVar[tuple[str, ...]] = ("counts",)
    results: tuple[Result, ...]
    sight: Sight = Sight()

    @property
    def problems(self) -> list[tuple[Result, Problem]]:
        """Every problem with the result it stands in, errors first, otherwise in the order of the checks."""
        order: dict[Severity, int] = {"error": 0, "warning": 1, "info": 2}
        problems_found = [(result, problem) for result in self.results for problem in result.problems]
        return sorted(problems_found, key=lambda pair: order[pair[1].severity])

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
        if self.counts.error:
            return "not ready"
        if self.sight.lacking:
            return "cannot tell"
        return "nothing wrong" if self.sight.selected or self.sight.left_out else "ready"

    def status(self, *, strict: bool = False) -> int:
        """0 nothing wrong, and what decides was seen; 1 an error (`strict`: or a warning or skipped check); 3 cannot
        tell.
        """
        verdict = self.verdict
        if verdict == "not ready" or (strict and self.counts.warning):
            return 1
        if verdict == "cannot tell":
            return 3
        return int(strict and bool(self.could_not_look))

    @property
    def exit_status(self) -> int:
        """Without --strict."""
        return self.status()

    def nagios_status(self, *, strict: bool = False) -> int:
        """Nagios' 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN; with `strict`, all that fails is CRITICAL."""
        status = self.status(strict=strict)
        if status:
            return {1: 2, 3: 3}[status]
        return int(self.counts.warning > 0)

    def verdict_for(self, exit_status: int) -> AnyVerdict:
        return self.verdict

    def stated(self) -> Iterator[Stated]:
        for result, problem in self.problems:
            yield stated(result.check, problem)

    @classmethod
    def of_earlier(cls, tree: dict[str, Any]) -> dict[str, Any]:
        unseen = {"lacking": ["it was written by an earlier gpudoctor"]}
        return tree | {"sight": tree.get("sight", {}) if tree.get("schema", 1) > 1 else unseen}
