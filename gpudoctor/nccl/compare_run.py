"""Runs --compare: the same test under each combination of settings, each twice and in both orders."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from gpudoctor.fleet.messages import Measurement
from gpudoctor.nccl.compare_settings import order_of_runs, settings_of, verdict, words
from gpudoctor.nccl.finding import Finding
from gpudoctor.nccl.flood import flood_finding
from gpudoctor.nccl.grade_data import wrong_data
from gpudoctor.nccl.grade_places import places
from gpudoctor.nccl.prepared import Prepared
from gpudoctor.nccl.result import Compared, RunResult, TestResult
from gpudoctor.nccl.run import RunInterrupted, run_launches
from gpudoctor.nccl.show import Show
from gpudoctor.nccl.stopped import why_stopped

WRONG = "wrong data"
"""The outcome of a run that ended and returned wrong elements: however fast, it does not win."""


def compare(
    prepared: Prepared, combinations: Sequence[Mapping[str, str]], wanted: Sequence[Measurement], show: Show
) -> TestResult:
    """What each combination reaches at the largest size, and which one wins.

    When interrupted: what the runs reached that were over, and no winner.
    """
    done: list[tuple[int, Compared]] = []
    findings: list[Finding] = []
    worlds = [0]
    interrupted = False
    for index in order_of_runs(len(combinations)):
        settings = dict(combinations[index])
        show.step(f"run {len(done) + 1} of {2 * len(combinations)}")
        try:
            (run,) = run_launches(
                prepared.fleet,
                [prepared.launch(prepared.nodes, wanted, settings=settings)],
                pythons=prepared.preflight.interpreters,
                timeout=prepared.wish.timeout,
            )
        except RunInterrupted:
            interrupted = True
            break
        worlds += [member.world_size for member in run.members[:1]]
        stopped = why_stopped(run, prepared.by_name) if run.outcome in ("stalled", "died") else ()
        of_this = _under([*stopped, *flood_finding(run)], settings)
        findings += [finding for finding in of_this if finding not in findings]
        wrong = _under(wrong_data(run, places(run, prepared.by_name, {})), settings)
        findings += [] if any(number == index and compared.outcome == WRONG for number, compared in done) else wrong
        done.append((index, Compared(settings, _largest(run), WRONG if wrong else run.outcome)))
        show.setting(done[-1][1])
    return TestResult(
        outcome="interrupted" if interrupted else "complete",
        compared=settings_of(combinations, done),
        comparison="Interrupted before the settings could be compared." if interrupted else verdict(combinations, done),
        world_size=max(worlds),
        findings=tuple(findings),
    )


def _under(findings: Iterable[Finding], settings: Mapping[str, str]) -> list[Finding]:
    """What the plain test would find, with the settings in front."""
    replace = msgspec.structs.replace
    return [
        replace(finding, problem=replace(finding.problem, summary=f"With {words(settings)}: {finding.problem.summary}"))
        for finding in findings
    ]


def _largest(run: RunResult) -> dict[str, float]:
    """Bus bandwidth at the largest size, by collective."""
    largest: dict[str, float] = {}
    for row in sorted(run.rows, key=lambda row: row.size_bytes):
        largest[row.collective] = row.bus_bandwidth
    return largest
