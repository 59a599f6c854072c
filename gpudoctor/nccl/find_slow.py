"""Runs the rounds of --find-slow: each in fresh processes with a deadline; a group that hangs is a result."""

from collections.abc import Iterable, Sequence

import msgspec

from gpudoctor.errors import BadInput
from gpudoctor.fleet.messages import Launch, Measurement
from gpudoctor.knowledge.wording import MIB
from gpudoctor.nccl import result
from gpudoctor.nccl.finding import Finding
from gpudoctor.nccl.flood import flood_finding
from gpudoctor.nccl.grade_data import wrong_data
from gpudoctor.nccl.grade_places import places
from gpudoctor.nccl.isolate import Isolating
from gpudoctor.nccl.isolate_judge import BAD_BELOW, GLOO_BAD_BELOW
from gpudoctor.nccl.nics import nic_settings
from gpudoctor.nccl.prepared import Prepared
from gpudoctor.nccl.result import Culprit, IsolationRound, RunResult, TestResult
from gpudoctor.nccl.run import RunInterrupted, run_launches
from gpudoctor.nccl.show import Show
from gpudoctor.nccl.stopped import why_stopped

GLOO_SIZES = (4 * MIB,)
NCCL_SIZES = (64 * MIB, 1024 * MIB)
"""The largest that fits into memory counts. Links show their rate from 1 GiB on (facts of nccl-tests' users)."""
SECONDS_PER_SIZE = 1.0
"""A slow pair keeps its whole round waiting: two operations are enough to tell it."""
GLOO_REPEATS = 3
"""Windows, of which the median counts: one of them may fall into a moment in which others use the CPUs."""
RING = {"NCCL_ALGO": "Ring"}
"""Over two nodes a tree sends less over the wire than the bus bandwidth says (nccl-tests#22)."""


class _Rounds:
    """Runs groups of nodes side by side."""

    def __init__(self, prepared: Prepared, show: Show) -> None:
        self.prepared = prepared
        self.show = show
        self.sizes = _sizes(prepared)
        self._rounds: list[tuple[IsolationRound, tuple[RunResult, ...]]] = []

    def run(
        self, purpose: str, groups: tuple[tuple[int, ...], ...], settings: dict[str, str] | None = None
    ) -> tuple[RunResult, ...]:
        """Measure groups of nodes at the same time; one result each."""
        prepared = self.prepared
        self.show.step(f"{purpose}: {len(groups)} at a time")
        launches = [self._launch(group, settings or {}) for group in groups]
        runs = run_launches(
            prepared.fleet, launches, pythons=prepared.preflight.interpreters, timeout=prepared.wish.timeout
        )
        names = tuple(tuple(prepared.fleet.name(node) for node in group) for group in groups)
        values = tuple(self.values([runs])[0])
        self._rounds.append((IsolationRound(purpose=purpose, groups=names, bus_bandwidth=values), runs))
        self.show.isolation_round(self._rounds[-1][0])
        return runs

    def values(self, rounds: Sequence[Sequence[RunResult]]) -> list[list[float | None]]:
        """Bus bandwidth of every group at the largest size that all of these have measured, None for one that hung.

        Where memory was short a group has the small size only, and that says nothing beside others' large one.
        """
        reached = [[_by_size(run, self.sizes) for run in runs] for runs in rounds]
        measured = [set(run) for runs in reached for run in runs if run]
        common = max(set.intersection(*measured), default=0) if measured else 0
        return [[run.get(common) for run in runs] for runs in reached]

    @property
    def runs(self) -> list[RunResult]:
        """Of all rounds so far."""
        return [run for _, runs in self._rounds for run in runs]

    @property
    def by_round(self) -> list[tuple[RunResult, ...]]:
        return [runs for _, runs in self._rounds]

    @property
    def done(self) -> tuple[IsolationRound, ...]:
        """The rounds as they were shown."""
        return tuple(done for done, _ in self._rounds)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Why groups hung or died, and elements that came back wrong."""
        by_name = self.prepared.by_name
        died = [run for run in self.runs if run.outcome in ("stalled", "died")]
        stopped = [finding for run in died for finding in why_stopped(run, by_name)]
        stopped += [finding for run in self.runs for finding in wrong_data(run, places(run, by_name, {}))]
        stopped += [finding for run in self.runs for finding in flood_finding(run)]
        return tuple(dict.fromkeys(stopped))

    @property
    def world_size(self) -> int:
        """The largest world that was measured."""
        return max((run.members[0].world_size for run in self.runs if run.members), default=0)

    def _launch(self, group: tuple[int, ...], settings: dict[str, str]) -> Launch:
        gloo = self.prepared.backend == "gloo"
        ring = {} if gloo or "NCCL_ALGO" in self.prepared.wish.settings else RING
        return self.prepared.launch(
            group,
            [Measurement("all_reduce", size) for size in self.sizes],
            settings={**ring, **settings},
            seconds_per_size=SECONDS_PER_SIZE,
            repeats=GLOO_REPEATS if gloo else 1,
            check=False if gloo else None,
        )


def find_slow(prepared: Prepared, show: Show) -> TestResult:
    """Name the slow or broken node, link or NIC.

    When interrupted: the rounds that were over, and no culprit, unless only NICs were left to be tried.
    """
    names = [prepared.fleet.name(node) for node in prepared.nodes]
    ranks = {prepared.ranks_on(node) for node in prepared.nodes}
    # By themselves, nodes with unlike numbers of ranks cannot be compared, and a single rank measures nothing.
    planner = Isolating(names, ranks_alone=len(ranks) == 1 and ranks != {1}, bad_below=_bad_below(prepared))
    rounds = _Rounds(prepared, show)
    try:
        return _judged(prepared, rounds, planner, names)
    except RunInterrupted:
        over = result.Isolation(rounds=rounds.done, summary="Interrupted before anybody could be named.")
        return TestResult(outcome="interrupted", isolation=over, world_size=rounds.world_size, findings=rounds.findings)


def _sizes(prepared: Prepared) -> tuple[int, ...]:
    """Those that the user allows. Below the least one nodes differ by chance, and an innocent one would be named."""
    usual = GLOO_SIZES if prepared.backend == "gloo" else NCCL_SIZES
    most = prepared.wish.maximum_bytes
    if most and most < min(usual):
        raise BadInput(
            f"--find-slow measures with {min(usual) // MIB} MiB at least: smaller sizes tell no node's speed"
        )
    return tuple(size for size in usual if not most or size <= most)


def _judged(prepared: Prepared, rounds: _Rounds, planner: Isolating, names: Sequence[str]) -> TestResult:
    while (wanted := planner.next_round()) is not None:
        runs = rounds.run(wanted.purpose, wanted.groups)
        planner.feed(rounds.values([runs])[0])
        planner.correct(rounds.values(rounds.by_round))
    isolation = planner.conclusion()
    innocent = [names[node] for node in sorted(planner.known_good)]
    culprits = list(isolation.culprits)
    summary = f"{isolation.summary}{_of_backend(prepared)}"
    interrupted = False
    for culprit in isolation.culprits:
        if culprit.kind == "node" and not interrupted:
            nics, interrupted = _guilty_nics(prepared, rounds, culprit, innocent)
            culprits += nics
    if interrupted:
        summary += " Interrupted before all NICs of the guilty were tried."
    of_nics = rounds.done[len(isolation.rounds) :]
    return TestResult(
        outcome="interrupted" if interrupted else "complete",
        isolation=msgspec.structs.replace(
            isolation, culprits=tuple(culprits), rounds=(*isolation.rounds, *of_nics), summary=summary
        ),
        world_size=rounds.world_size,
        findings=rounds.findings,
    )


def _bad_below(prepared: Prepared) -> float:
    return GLOO_BAD_BELOW if prepared.backend == "gloo" else BAD_BELOW


def _of_backend(prepared: Prepared) -> str:
    """How far below the others is slow, where that is not what NCCL's users are used to."""
    if prepared.backend != "gloo":
        return ""
    return (
        f" Over gloo only what stays below {GLOO_BAD_BELOW:.0%} of the others is called slow: its ranks share the CPUs "
        "with everything else that runs."
    )


def _by_size(run: RunResult, sizes: Iterable[int]) -> dict[int, float]:
    """Size asked for -> bus bandwidth; nothing for a run that hung or died. Rows say what was moved, which is rounded
    to whole ranks."""
    if run.outcome != "complete":
        return {}
    wanted = tuple(sizes)
    return {min(wanted, key=lambda size: abs(size - row.size_bytes)): row.bus_bandwidth for row in run.rows}


def _guilty_nics(
    prepared: Prepared, rounds: _Rounds, culprit: Culprit, innocent: Sequence[str]
) -> tuple[list[Culprit], bool]:
    """The NICs of a guilty node that are slower than its others, each tried alone against a known-good node; and
    whether that was interrupted."""
    if not innocent:
        return [], False
    names = [prepared.fleet.name(node) for node in prepared.nodes]
    guilty, partner = names.index(culprit.nodes[0]), names.index(innocent[0])
    snapshots = prepared.preflight.snapshots
    nics = nic_settings(snapshots[guilty], snapshots[partner], prepared.backend)
    runs: dict[str, tuple[RunResult, ...]] = {}
    interrupted = False
    try:
        for nic, settings in nics.items():
            runs[nic] = rounds.run(f"{nic} of {names[guilty]}", ((guilty, partner),), settings)
    except RunInterrupted:
        interrupted = True
    values = dict(zip(runs, (each[0] for each in rounds.values(list(runs.values()))), strict=True))
    best = max((value for value in values.values() if value is not None), default=0.0)
    slow = [
        Culprit(
            kind="nic",
            nodes=(names[guilty],),
            nic=nic,
            why=f"no result with {names[partner]}: the test hung or died"
            if value is None
            else f"{value:.2f} GB/s with {names[partner]}, its best NIC {best:.2f} GB/s",
        )
        for nic, value in values.items()
        if value is None or value < _bad_below(prepared) * best
    ]
    return slow, interrupted
