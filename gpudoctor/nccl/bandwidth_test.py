"""The whole test: reach the nodes, preflight, run, judge. Everything it tells goes through a `Show`."""

import time
from collections.abc import Mapping, Sequence

import msgspec

from gpudoctor import __version__
from gpudoctor.fleet.fleet import Fleet
from gpudoctor.fleet.messages import Measurement
from gpudoctor.fleet.reach import reach
from gpudoctor.knowledge.gpus.nvidia_hardware import gpus_on_pci
from gpudoctor.nccl.compare_run import compare
from gpudoctor.nccl.find_slow import find_slow
from gpudoctor.nccl.finding import Finding, has_errors
from gpudoctor.nccl.flood import flood_finding
from gpudoctor.nccl.grade import grade
from gpudoctor.nccl.lost import lost_findings
from gpudoctor.nccl.plan import measurements, sizes
from gpudoctor.nccl.preflight import preflight
from gpudoctor.nccl.prepared import Prepared, preflight_wish
from gpudoctor.nccl.result import RunResult, TestResult
from gpudoctor.nccl.run import RunInterrupted, run_launches
from gpudoctor.nccl.show import Show
from gpudoctor.nccl.stopped import why_stopped
from gpudoctor.nccl.wish import GLOO_MAXIMUM, NCCL_MAXIMUM, Wish
from gpudoctor.snapshot import NotRead, Snapshot


class _Stopwatch:
    """Seconds of each part of the test."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._since = time.monotonic()

    def lap(self, name: str) -> None:
        now = time.monotonic()
        self.seconds[name] = round(now - self._since, 3)
        self._since = now


def bandwidth_test(
    fleet: Fleet, wish: Wish, show: Show, *, combinations: tuple[Mapping[str, str], ...] = (), isolate: bool = False
) -> TestResult:
    """Run the test on all nodes of the fleet, which the caller closes.

    `combinations`: the settings of --compare, each of which gets its own runs. `isolate`: --find-slow.
    An interrupted test gives what was measured so far. Raises `ValueError` (one line for the user) when these nodes
    cannot run what was wished.
    """
    watch = _Stopwatch()
    reach(fleet, timeout=fleet.patience, on_change=lambda found: show.reaching(fleet, found))
    watch.lap("reach")
    names = tuple(node.name for node in fleet.nodes)  # only now: nodes that join, and SLURM's tasks, bring their own
    result = TestResult(
        gpudoctor=__version__,
        reached_by=fleet.how,
        backend=backend_before(wish, ()),
        nodes=names,
        seconds=watch.seconds,
    )
    if fleet.lost:
        return msgspec.structs.replace(result, outcome="too few nodes", findings=lost_findings(fleet))
    seen = preflight(fleet, preflight_wish(wish), on_step=show.step)
    watch.lap("preflight")
    result = msgspec.structs.replace(result, findings=(*lost_findings(fleet), *seen.findings))
    if has_errors(result.findings):
        backend = backend_before(wish, tuple(seen.snapshots.values()))
        return msgspec.structs.replace(result, outcome="preflight failed", backend=backend)
    prepared = Prepared(fleet, wish, seen)
    result = msgspec.structs.replace(
        result,
        backend=prepared.backend,
        why_backend=prepared.why_backend,
        ranks_per_node=tuple(prepared.ranks_on(node) for node in prepared.nodes),
        rendezvous=f"{seen.master_address}:{seen.master_port}",
        settings=dict(wish.settings),
    )
    show.about(result)
    try:
        if isolate:
            return _finish(result, find_slow(prepared, show))
        if combinations:
            return _finish(result, compare(prepared, combinations, _measurements(prepared), show))
        return _measure(prepared, result, show)
    except RunInterrupted as stopped:
        rows = stopped.results[0] if stopped.results else None
        return msgspec.structs.replace(result, outcome="interrupted", run=rows, world_size=_world_size(rows))
    finally:
        watch.lap("run")


def backend_before(wish: Wish, snapshots: Sequence[Snapshot]) -> str:
    """The backend of a test that does not start: asked for, or gloo where no node has a GPU; else it is open, ""."""
    if wish.backend != "auto":
        return wish.backend
    try:
        return "gloo" if snapshots and not any(gpus_on_pci(snapshot) for snapshot in snapshots) else ""
    except NotRead:
        return ""


def _measure(prepared: Prepared, result: TestResult, show: Show) -> TestResult:
    launch = prepared.launch(prepared.nodes, _measurements(prepared))
    show.started(launch)
    (run,) = run_launches(
        prepared.fleet,
        [launch],
        pythons=prepared.preflight.interpreters,
        timeout=prepared.wish.timeout,
        heard=show.heard,
    )
    return judge(result, run, prepared)


def _measurements(prepared: Prepared) -> tuple[Measurement, ...]:
    wish = prepared.wish
    maximum = wish.maximum_bytes or (GLOO_MAXIMUM if prepared.backend == "gloo" else NCCL_MAXIMUM)
    return measurements(wish.collectives, sizes(min(wish.minimum_bytes, maximum), maximum, wish.factor))


def judge(result: TestResult, run: RunResult, prepared: Prepared) -> TestResult:
    """Grades and findings of a run."""
    logs = {rank.rank: rank.log for end in run.ends for rank in end.ranks}
    grades, graded = grade(run, prepared.by_name, prepared.backend, logs)
    findings: tuple[Finding, ...] = (*result.findings, *graded, *flood_finding(run))
    if run.outcome in ("stalled", "died"):
        findings = (*why_stopped(run, prepared.by_name), *findings)
    return msgspec.structs.replace(
        result, outcome=run.outcome, run=run, world_size=_world_size(run), grades=grades, findings=findings
    )


def _world_size(run: RunResult | None) -> int:
    return run.members[0].world_size if run is not None and run.members else 0


def _finish(result: TestResult, part: TestResult) -> TestResult:
    """What --find-slow or --compare found, together with what the preflight did."""
    return msgspec.structs.replace(
        result,
        outcome=part.outcome,
        compared=part.compared,
        comparison=part.comparison,
        isolation=part.isolation,
        world_size=part.world_size,
        findings=(*part.findings, *result.findings),
    )
