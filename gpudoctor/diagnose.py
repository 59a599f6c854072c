"""Checks x snapshot -> Report. Says ok, skipped, not applicable and crashed; checks speak only of problems."""

import traceback
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from gpudoctor import __version__
from gpudoctor.check import Check, Problem
from gpudoctor.deciding import sight
from gpudoctor.plugins import BrokenPlugin
from gpudoctor.report import Outcome, Report, Result
from gpudoctor.snapshot import NotApplicable, NotRead, Snapshot


def diagnose(
    machine: Snapshot, checks: Iterable[Check], broken: Iterable[BrokenPlugin] = (), *, names: Sequence[str] = ()
) -> Report:
    """Ask every check about the machine. Never raises: a check that does is a result.

    `names`: the checks and groups that were asked for, where not all were; the verdict then is on these.
    """
    results = [ask(check, machine) for check in checks]
    results += [
        Result(check=plugin.name, group="plugins", title="Plugin loads", outcome="crashed", reasons=(plugin.reason,))
        for plugin in broken
    ]
    return Report(tuple(results), gpudoctor=__version__, sight=sight(machine, results, names))


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
                    problems.append(
                        msgspec.structs.replace(
                            problem,
                            gpus=problem.gpus or (() if index is None else (index,)),
                            follows=problem.follows or check.follows,
                            short=problem.short or check.short,
                        )
                    )
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
