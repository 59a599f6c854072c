"""The rows of a check's case list: a machine, and what the check must say of it.

    warning(one(temperature_celsius=84), "GPU 3", "84 °C"),      # it speaks, with these words
    silent(one(temperature_celsius=83)),                        # the least step away: not a word
    skipped(one(temperature_celsius=unread())),                 # it could not look, and says so

`lacks(case, check)` runs one. gpudoctor's own stand in `tests/checks`; a plugin's test is

    @pytest.mark.parametrize("case", CASES)
    def test_case(case):
        assert not list(lacks(case, gpu_too_hot))
"""

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Literal, NamedTuple

from gpudoctor.check import Check, Severity
from gpudoctor.diagnose import ask
from gpudoctor.lazy import lazy_re
from gpudoctor.report import Result
from gpudoctor.snapshot import NOT_IN_SNAPSHOT, Snapshot
from gpudoctor.testing.machines import but, h100_node, unread

Expected = Severity | Literal["silent", "skipped"]
UNWELCOME = lazy_re(r"\b(simply|just|ensure|please)\b|!", re.IGNORECASE)
"""Words that docs/messages.md does not want."""


class Case(NamedTuple):
    """What a check must make of machines."""

    expected: Expected
    machines: tuple[Snapshot, ...]
    says: tuple[str, ...] = ()
    """Words that the first problem's summary must hold: the number, the device."""
    runs: tuple[str, ...] = ()
    """Lines that its fix must offer, as a user would paste them."""
    times: int = 1
    """How many problems there must be."""

    @property
    def machine(self) -> Snapshot:
        return self.machines[0]

    @property
    def speaks(self) -> bool:
        return self.expected not in ("silent", "skipped")


def _problem(severity: Severity, machine: Snapshot, *says: str, runs: str | Sequence[str] = (), times: int = 1) -> Case:
    return Case(severity, (machine,), says, (runs,) if isinstance(runs, str) else tuple(runs), times)


error, warning, info = partial(_problem, "error"), partial(_problem, "warning"), partial(_problem, "info")


def silent(*machines: Snapshot) -> Case:
    """The near misses: machines that differ from one with the fault by the least step, and do not have it."""
    return Case("silent", machines)


def skipped(*machines: Snapshot | str) -> Case:
    """Machines of which something that the check needs is unread: a fact's name, for the 8xH100 without it."""
    return Case(
        "skipped",
        tuple(but(h100_node(), machine, unread()) if isinstance(machine, str) else machine for machine in machines),
    )


def lacks(case: Case, check: Check) -> Iterator[str]:
    """What the answers lack of what the case wants and every finding owes; nothing when all is well."""
    for machine in case.machines:
        yield from _lacks(case, ask(check, machine))


def _lacks(case: Case, result: Result) -> Iterator[str]:
    if case.expected == "silent":
        yield from () if result.outcome in ("ok", "not-applicable") else ["not silent"]
        return
    if case.expected == "skipped":
        yield from () if result.outcome == "skipped" and result.reasons else ["not skipped"]
        return
    problems = result.problems
    if len(problems) != case.times:
        yield f"{len(problems)} problems"
    for problem in problems[:1]:
        yield from () if problem.severity == case.expected else [problem.severity]
        yield from (words for words in case.says if words not in problem.summary)
        yield from (line for line in case.runs if line not in problem.fix.every_line)
        # A reading that failed can be the evidence (a lost GPU, a call that hangs); one that nobody tried cannot.
        if not problem.evidence or problem.evidence[0] == NOT_IN_SNAPSHOT:
            yield "no evidence"
    for problem in problems:
        text = " ".join((problem.summary, problem.meaning, problem.fix.text))
        yield from UNWELCOME.findall(text)
        if not (problem.meaning and problem.fix.text) or problem.summary.endswith("."):
            yield text
        yield from (line for line in (problem.summary, *problem.fix.every_line) if "\n" in line)
        if (gpu := re.match(r"GPU (\d+)\b", problem.summary)) and int(gpu[1]) not in problem.gpus:
            yield f"{problem.summary} is about {problem.gpus}"
