"""The test in a world that the user's own torchrun or srun has started: one of us a rank, or a node.

Every process starts its own part of the ranks (a rank, or by torchrun those of its node) and watches them. The process
of rank 0 compares, grades and speaks for all; the others are silent, unless their own ranks fail.
"""

import importlib.util
import os
import socket
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from gpudoctor import __version__
from gpudoctor.fleet.fleet import Node
from gpudoctor.fleet.join_messages import with_port
from gpudoctor.fleet.local import LocalFleet
from gpudoctor.fleet.messages import Launch, Outer
from gpudoctor.fleet.reach import reach
from gpudoctor.nccl.bandwidth_test import backend_before, judge
from gpudoctor.nccl.finding import Finding, has_errors
from gpudoctor.nccl.lost import lost_findings
from gpudoctor.nccl.plan import measurements, sizes
from gpudoctor.nccl.preflight import PreflightWish, preflight
from gpudoctor.nccl.prepared import Prepared
from gpudoctor.nccl.rank_messages import AnyRankMessage, Member
from gpudoctor.nccl.result import TestResult
from gpudoctor.nccl.run import RunInterrupted, run_launches
from gpudoctor.nccl.show import Show
from gpudoctor.nccl.symmetric_members import member_findings
from gpudoctor.nccl.symmetric_world import NoWorld as NoWorld, SymmetricWorld, world
from gpudoctor.nccl.wish import GLOO_MAXIMUM, NCCL_MAXIMUM, Wish

REACH_SECONDS = 20.0


@dataclass
class _Seconds:
    since: float

    def __call__(self) -> float:
        return round(time.monotonic() - self.since, 3)


def run_symmetric(wish: Wish, show: Show, environment: Mapping[str, str] | None = None) -> TestResult | None:
    """Take part in the world around us; the whole answer in the process of rank 0, None in every other.

    Raises `NoWorld` (one line for the user) where the environment tells no way to the others, and `ValueError` when
    this node cannot run what was wished. A part of the ranks that fails is told on standard error of its process.
    """
    environment = dict(os.environ if environment is None else environment)
    place = world(environment)
    if place.launcher == "torchrun" and importlib.util.find_spec("torch") is not None:
        wish = msgspec.structs.replace(wish, python=sys.executable)  # torchrun's own
    own = socket.gethostname()
    with LocalFleet([Node(own)], environment={**environment, **place.variables}) as fleet:
        result = _take_part(fleet, place, wish, show if place.is_first else Show())
    if place.is_first:
        return result
    if result.outcome not in ("complete", "interrupted") or has_errors(result.findings):
        _complain(place, own, result)
    return None


def exit_status(result: TestResult) -> int:
    """The status of rank 0's process. torchrun takes any other than 0 for a crash, and prints a page about it: a test
    that came to its end is none, however it is graded."""
    if "TORCHELASTIC_RUN_ID" in os.environ and result.outcome == "complete" and not has_errors(result.findings):
        return 0
    return result.exit_status


def _take_part(fleet: LocalFleet, place: SymmetricWorld, wish: Wish, show: Show) -> TestResult:
    seconds = _Seconds(time.monotonic())
    result = TestResult(gpudoctor=__version__, reached_by=place.launcher, nodes=(fleet.name(0),))
    reach(fleet, timeout=REACH_SECONDS)
    if fleet.lost:
        return msgspec.structs.replace(result, outcome="too few nodes", findings=lost_findings(fleet))
    show.step(f"this node, as {place.name} of {place.launcher}'s world")
    seen = preflight(
        fleet,
        PreflightWish(backend=wish.backend, interface=wish.interface, python=wish.python, settings=dict(wish.settings)),
    )
    result = msgspec.structs.replace(result, findings=seen.findings, seconds={"preflight": seconds()})
    if has_errors(seen.findings):
        backend = backend_before(wish, tuple(seen.snapshots.values()))
        return msgspec.structs.replace(result, outcome="preflight failed", backend=backend)
    prepared = Prepared(fleet, wish, seen)
    is_default_gloo = prepared.backend == "gloo" and not wish.ranks_per_node and place.nodes > 1
    ranks = 1 if place.is_rank or is_default_gloo else prepared.ranks_on(0)
    maximum = wish.maximum_bytes or (GLOO_MAXIMUM if prepared.backend == "gloo" else NCCL_MAXIMUM)
    wanted = measurements(wish.collectives, sizes(min(wish.minimum_bytes, maximum), maximum, wish.factor))
    launch = msgspec.structs.replace(
        prepared.launch((0,), wanted),
        id="1",
        ranks_per_node=(ranks,),
        master_address=place.master_address,
        master_port=place.master_port,
        outer=Outer(place.nodes, place.node_rank, place.is_rank),
    )
    result = msgspec.structs.replace(
        result,
        backend=prepared.backend,
        why_backend=prepared.why_backend,
        ranks_per_node=(ranks,),
        rendezvous=with_port(place.master_address, place.master_port),
        settings=dict(wish.settings),
    )
    meeting = _Meeting(result, show)
    show.started(launch)
    try:
        (run,) = run_launches(
            fleet,
            [launch],
            pythons=seen.interpreters,
            timeout=wish.timeout,
            heard=meeting.heard,
        )
    except RunInterrupted as stopped:
        rows = stopped.results[0] if stopped.results else None
        result = _of_world(result, rows.members if rows is not None else ())
        return msgspec.structs.replace(result, outcome="interrupted", run=rows)
    result = judge(result, run, prepared)
    findings: tuple[Finding, ...] = ()
    if place.is_first and run.members:
        findings = member_findings(run.members, expected_size=place.size, expected_nodes=place.nodes)
    result = msgspec.structs.replace(result, findings=(*result.findings, *findings))
    return msgspec.structs.replace(
        _of_world(result, run.members), seconds={**result.seconds, "run": round(run.seconds, 3)}
    )


class _Meeting:
    """Shows the world once all of its ranks have told who they are: which nodes it has, nobody knows before."""

    def __init__(self, result: TestResult, show: Show) -> None:
        self._result = result
        self._show = show
        self._members: list[Member] = []

    def heard(self, launch: Launch, message: AnyRankMessage) -> None:
        if not isinstance(message, Member):
            return self._show.heard(launch, message)
        self._members.append(message)
        if len(self._members) < message.world_size:
            return None
        self._show.about(_of_world(self._result, self._members))
        for member in self._members:
            self._show.member(member)
        return None


def _of_world(result: TestResult, members: Sequence[Member]) -> TestResult:
    """The nodes as the ranks named them: this process has started but its own."""
    if not members:
        return result
    counts = Counter(member.host for member in members)
    return msgspec.structs.replace(
        result,
        nodes=tuple(counts),
        ranks_per_node=tuple(counts.values()),
        world_size=members[0].world_size,
    )


def _complain(place: SymmetricWorld, host: str, result: TestResult) -> None:
    """The one line by which a process that does not speak for all says what became of its ranks."""
    states = [
        f"rank {state.rank} in '{state.phase}'"
        + (f": {state.error.strip().splitlines()[-1][:200]}" if state.error else "")
        for end in (result.run.ends if result.run is not None else ())
        for state in end.ranks
    ]
    errors = [finding.problem.summary for finding in result.findings if finding.problem.severity == "error"]
    what = "; ".join(states[:4] or errors[:2]) or "no rank has said anything"
    print(f"gpudoctor: {place.name} on {host}: {result.outcome}: {what}", file=sys.stderr, flush=True)
