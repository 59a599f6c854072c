"""Checks x snapshot -> Report. Says ok, skipped, not applicable and crashed; checks speak only of problems."""

import traceback
from collections.abc import Iterable, Iterator

import msgspec

from gpudoctor import __version__
from gpudoctor.check import Check, Problem
from gpudoctor.plugins import BrokenPlugin
from gpudoctor.report import Outcome, Report, Result
from gpudoctor.snapshot import NotApplicable, NotRead, Snapshot


def diagnose(machine: Snapshot, checks: Iterable[Check], broken: Iterable[BrokenPlugin] = ()) -> Report:
    """Ask every check about the machine. Never raises: a check that does is a result."""
    results = [ask(check, machine) for check in checks]
    results += [
        Result(check=plugin.name, group="plugins", title="Plugin loads", outcome="crashed", reasons=(plugin.reason,))
        for plugin in broken
    ]
    return Report(tuple(results), gpudoctor=__version__)


def ask(check: Check, machine: Snapshot) -> Result:
    """One check's result."""
    problems: list[Problem] = []
    unread: list[NotRead] = []
    examined = 0
    crash = ""
    try:
        for index, judged in _judgements(check, machine):
            try:
                for problem in judged:
                    own = problem.gpus or (() if index is None else (index,))
                    problems.append(msgspec.structs.replace(problem, gpus=own))
                examined += 1
            except NotRead as error:
                unread.append(error)
    except NotRead as error:
        unread.append(error)
    except Exception:  # a check's bug must not take the other checks' verdicts along
        crash = _where(traceback.format_exc())
    return _result(check, problems, unread, examined, crash)


def _judgements(check: Check, machine: Snapshot) -> Iterator[tuple[int | None, Iterator[Problem]]]:
    if check.gpu_rule is not None:
        for gpu in machine.nvidia.gpus.value:
            yield gpu.index, check.gpu_rule(gpu, machine)
    elif check.rule is not None:
        yield None, check.rule(machine)


def _result(check: Check, problems: list[Problem], unread: list[NotRead], examined: int, crash: str) -> Result:
    blind = [error for error in unread if not isinstance(error, NotApplicable)]
    not_asked = [error for error in blind if error.reading.missing_kind == "not-asked"]
    outcome: Outcome
    reasons: tuple[str, ...] = tuple(dict.fromkeys(str(error) for error in blind))
    if crash:
        outcome, reasons = "crashed", (crash,)
    elif problems:
        outcome = "problem"
    elif blind:
        outcome = "not-run" if len(not_asked) == len(blind) else "skipped"
    elif examined == 0:
        outcome = "not-applicable"
        reasons = tuple(dict.fromkeys(str(error) for error in unread))
    else:
        outcome = "ok"
    return Result(
        check=check.id,
        group=check.group,
        title=check.title,
        outcome=outcome,
        problems=tuple(problems),
        reasons=reasons,
    )


def _where(trace: str) -> str:
    """The last frame and the exception, on one line."""
    lines = [line.strip() for line in trace.strip().splitlines()]
    frames = [line for line in lines if line.startswith("File ")]
    return f"{lines[-1]} ({frames[-1]})" if frames else lines[-1]


def unseen(machine: Snapshot, report: Report) -> tuple[str, ...]:
    """What decides about this machine's health and could not be read, with the reason; empty: nothing.

    /proc, /sys and NVML each feed dozens of checks: a verdict without one of them says nothing. What no check of
    the report asked for does not count, nor what a file of another tool never holds.
    """
    if machine.origin != Snapshot().origin:
        return ()
    host, bus, gpus = machine.host, machine.accelerators.pci, machine.nvidia.gpus
    decisive = {"/proc": (host.system, host.memory_total_bytes), "/sys": (bus,), "NVML": (gpus,)}
    asked = {reason for result in report.could_not_look for reason in result.reasons}
    found = []
    for name, readings in decisive.items():
        lost = (each for each in readings if not each.is_read and each.missing_kind not in ("absent", "not-asked"))
        reading = next((each for each in lost if f"{each.source}: {each.reason}" in asked), None)
        if reading is not None:
            found.append(f"{name} could not be read ({reading.source}: {reading.reason})")
    if (dead := sorted(reason for reason in asked if reason.startswith("reader of "))) and not found:
        found.append(f"{len(dead)} readers of this machine gave no answer ({dead[0]})")
    return tuple(found)
