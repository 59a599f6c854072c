"""Runs the rounds of --find-slow: each in fresh processes with a deadline; a group that hangs is a result."""

from collections.abc import Sequence

import msgspec

from gpudoctor.fleet.messages import Launch, Measurement
from gpudoctor.nccl import result
from gpudoctor.nccl.isolate import Isolation
from gpudoctor.nccl.nics import nic_settings
from gpudoctor.nccl.prepared import Prepared
from gpudoctor.nccl.result import Culprit, IsolationRound, RunResult, TestResult
from gpudoctor.nccl.run import RunInterrupted, run_launches
from gpudoctor.nccl.show import Show
from gpudoctor.nccl.stopped import why_stopped

MIB = 1024**2
GLOO_SIZES = (4 * MIB,)
NCCL_SIZES = (64 * MIB, 1024 * MIB)
"""The largest that fits into memory counts. Links show their rate from 1 GiB on (facts of nccl-tests' users)."""
SECONDS_PER_SIZE = 1.0
"""A slow pair keeps its whole round waiting: two operations are enough to tell it."""
SLOW_NIC = 0.7
"""A NIC that reaches less than this share of its best sibling is named. Our rule of thumb."""
RING = {"NCCL_ALGO": "Ring"}
"""Over two nodes a tree sends less over the wire than the bus bandwidth says (nccl-tests#22)."""


class _Rounds:
    """Runs groups of nodes side by side."""

    def __init__(self, prepared: Prepared, show: Show) -> None:
        self.prepared = prepared
        self.show = show
        self.runs: list[RunResult] = []
        self.done: list[IsolationRound] = []

    def run(
        self, purpose: str, groups: tuple[tuple[int, ...], ...], settings: dict[str, str] | None = None
    ) -> list[float | None]:
        """Bus bandwidth of every group at the largest size, None for one that hung or died."""
        prepared = self.prepared
        self.show.step(f"{purpose}: {len(groups)} at a time")
        launches = [self._launch(group, settings or {}) for group in groups]
        runs = run_launches(
            prepared.fleet, launches, pythons=prepared.preflight.interpreters, timeout=prepared.wish.timeout
        )
        self.runs += runs
        values = [_bandwidth(run) for run in runs]
        names = tuple(tuple(prepared.fleet.name(node) for node in group) for group in groups)
        self.done.append(IsolationRound(purpose=purpose, groups=names, bus_bandwidth=tuple(values)))
        self.show.isolation_round(self.done[-1])
        return values

    @property
    def world_size(self) -> int:
        """The largest world that was measured."""
        return max((run.members[0].world_size for run in self.runs if run.members), default=0)

    def _launch(self, group: tuple[int, ...], settings: dict[str, str]) -> Launch:
        gloo = self.prepared.backend == "gloo"
        ring = {} if gloo or "NCCL_ALGO" in self.prepared.wish.settings else RING
        return self.prepared.launch(
            group,
            [Measurement("all_reduce", size) for size in (GLOO_SIZES if gloo else NCCL_SIZES)],
            settings={**ring, **settings},
            seconds_per_size=SECONDS_PER_SIZE,
            repeats=1,
            check=False,
        )


def find_slow(prepared: Prepared, show: Show) -> TestResult:
    """Name the slow or broken node, link or NIC. When interrupted: the rounds that were over, and no culprit."""
    names = [prepared.fleet.name(node) for node in prepared.nodes]
    ranks = {prepared.ranks_on(node) for node in prepared.nodes}
    # By themselves, nodes with unlike numbers of ranks cannot be compared, and a single rank measures nothing.
    planner = Isolation(names, ranks_alone=len(ranks) == 1 and ranks != {1})
    rounds = _Rounds(prepared, show)
    try:
        return _judged(prepared, rounds, planner, names)
    except RunInterrupted:
        over = result.Isolation(rounds=tuple(rounds.done), summary="Interrupted before anybody could be named.")
        return TestResult(outcome="interrupted", isolation=over, world_size=rounds.world_size)


def _judged(prepared: Prepared, rounds: _Rounds, planner: Isolation, names: Sequence[str]) -> TestResult:
    while (wanted := planner.next_round()) is not None:
        planner.feed(rounds.run(wanted.purpose, wanted.groups))
    found = planner.conclusion()
    innocent = [names[node] for node in sorted(planner.known_good)]
    culprits = list(found.culprits)
    for culprit in found.culprits:
        if culprit.kind == "node":
            culprits += _guilty_nics(prepared, rounds, culprit, innocent)
    died = [run for run in rounds.runs if run.outcome in ("stalled", "died")]
    findings = tuple(dict.fromkeys(finding for run in died for finding in why_stopped(run, prepared.by_name)))
    return TestResult(
        isolation=msgspec.structs.replace(found, culprits=tuple(culprits), rounds=tuple(rounds.done)),
        world_size=rounds.world_size,
        findings=findings,
    )


def _bandwidth(run: RunResult) -> float | None:
    if run.outcome != "complete" or not run.rows:
        return None
    return max(run.rows, key=lambda row: row.size_bytes).bus_bandwidth


def _guilty_nics(prepared: Prepared, rounds: _Rounds, culprit: Culprit, innocent: Sequence[str]) -> list[Culprit]:
    """The NICs of a guilty node that are slower than its others, each tried alone against a known-good node."""
    if not innocent:
        return []
    names = [prepared.fleet.name(node) for node in prepared.nodes]
    guilty, partner = names.index(culprit.nodes[0]), names.index(innocent[0])
    snapshots = prepared.preflight.snapshots
    nics = nic_settings(snapshots[guilty], snapshots[partner], prepared.backend)
    values = {
        nic: rounds.run(f"{nic} of {names[guilty]}", ((guilty, partner),), settings)[0]
        for nic, settings in nics.items()
    }
    best = max((value for value in values.values() if value is not None), default=0.0)
    return [
        Culprit(
            kind="nic",
            nodes=(names[guilty],),
            nic=nic,
            why=f"no result with {names[partner]}: the test hung or died"
            if value is None
            else f"{value:.2f} GB/s with {names[partner]}, its best NIC {best:.2f} GB/s",
        )
        for nic, value in values.items()
        if value is None or value < SLOW_NIC * best
    ]
