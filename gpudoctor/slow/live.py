"""Looks at the pace of live jobs. May raise `BadInput`, `CannotTell` and `Unreached`, as `hang` does."""

import math
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec import structs

from gpudoctor.active import Awaited, Waiting
from gpudoctor.fleet.clocks import ClockOffset, clock_offsets
from gpudoctor.fleet.fleet import Fleet, Lost
from gpudoctor.fleet.messages import Watch, Watched
from gpudoctor.fleet.where import Where
from gpudoctor.hang import ask
from gpudoctor.hang.job import JobMember, Members
from gpudoctor.hang.live import JobsWanted, arrive, hang_fleet, nothing_found, wanted
from gpudoctor.named import told
from gpudoctor.read.job.wanted import Wanted
from gpudoctor.slow.conclude import Paces, concluded, paces_of
from gpudoctor.slow.report import JobPace, SlowReport
from gpudoctor.snapshot.evidence import Unread
from gpudoctor.snapshot.pace import NodePace

MOST_JOBS = 4
LEAST_SAMPLES, MOST_SAMPLES = 14, 58
"""Seconds for which a late rank is looked at, at most once in each. An order ends at 60."""
HITS = 6
"""Samples in which a late rank should stand in what makes it late."""
BETWEEN = 1.125
"""Seconds from sample to sample, in the mean (read/job/pace.py)."""
MOST_LATE = 8
MOST_WORKERS = 8
MOST_OTHERS = 3
"""Ranks that are not late, whose stacks are compared."""
ASK_SECONDS = 6.0
MARGIN_SECONDS = 8.0
PATIENCE_SECONDS = 30.0
WAIT_SECONDS = 20.0
"""For more collectives, where there are too few yet."""


class SlowWanted(NamedTuple):
    pid: int | None = None
    job: str | None = None
    user: str | None = None
    seconds: float | None = None
    """For how long stacks are looked at; None: as long as it takes for what is lost."""


def slow(where: Where, asked: SlowWanted, waiting: Waiting) -> SlowReport:
    """Find the jobs and look at their pace."""
    started = time.monotonic()
    jobs_wanted = JobsWanted(asked.pid, asked.job, asked.user)
    with hang_fleet(where, asked.job) as fleet:
        arrive(fleet, waiting)
        processes = ask.processes(fleet, waiting=waiting, alone=asked.pid)
        chosen = [job for jobs in wanted(processes, jobs_wanted).looks for job in jobs]
        if not chosen:
            raise nothing_found(jobs_wanted, fleet, processes)
        looks = _Looks(fleet, clock_offsets(fleet), waiting)
        paces = tuple(looks.of(job, asked.seconds) for job in chosen[:MOST_JOBS])
        lost = {**processes.lost, **looks.lost}
        hosts = tuple(node.name for node in fleet.nodes)
        fleet.dismiss()
    unread = tuple(dict.fromkeys((*processes.unread, *looks.unread)))[:64]
    return SlowReport(hosts=hosts, paces=paces, lost=lost, unread=unread, seconds=round(time.monotonic() - started, 2))


class _Looks:
    """At the jobs of a fleet."""

    def __init__(self, fleet: Fleet, offsets: Mapping[int, ClockOffset], waiting: Waiting) -> None:
        self.fleet, self.offsets, self.waiting = fleet, offsets, waiting
        self.lost: dict[str, str] = {}
        self.unread: list[Unread] = []

    def of(self, job: Members, seconds: float | None) -> JobPace:
        ranks = [member for member in job.members if member.role == "rank" and member.rank is not None]
        nodes = self._ask(ranks)
        first = paces_of(nodes)
        until = time.monotonic() + WAIT_SECONDS
        while first.ranks and not first.groups and time.monotonic() < until and _gets_on(first):
            self._pause(2.0, Awaited(["more steps"], until))
            nodes = self._ask(ranks)
            first = paces_of(nodes)
        late = first.late
        if not late:
            return concluded(job, nodes, first, None)
        lasts = seconds if seconds is not None else _long_enough(late[0].share)
        since = time.time_ns()
        window: Paces | None = None
        sampled = self._ask(ranks, _chosen(job, first), lasts)
        window = paces_of(sampled, since)
        return concluded(job, nodes, first, window, sampled, lasts)

    def _pause(self, seconds: float, awaited: Awaited) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.waiting(awaited)
            self.fleet.keep_alive()
            time.sleep(min(0.5, left))

    def _ask(
        self, ranks: Sequence[JobMember], sampled: Sequence[JobMember] = (), seconds: float = 0.0
    ) -> list[NodePace]:
        order = Wanted(
            pids=_by_node([(member.node, (member.process.pid, member.process.started)) for member in sampled]),
            ranks={
                str(node): {str(rank.process.pid): rank.rank or 0 for rank in ranks if rank.node == node}
                for node in {rank.node for rank in ranks}
            },
            seconds=seconds,
            timeout=ASK_SECONDS,
        )
        present = self.fleet.present
        answers = self.fleet.ask(
            Watch(to=present, wanted=order),
            Watched,
            timeout=seconds + ASK_SECONDS + MARGIN_SECONDS,
            patience=PATIENCE_SECONDS,
            of=present,
            waiting=self.waiting,
        )
        nodes = [NodePace(name=self.fleet.name(node)) for node in range(len(self.fleet.nodes))]
        for node, answer in answers.items():
            if isinstance(answer, Lost):
                self.lost.setdefault(self.fleet.name(node), answer.words)
                continue
            try:
                pace = msgspec.json.decode(answer.pace, type=NodePace)
            except msgspec.DecodeError as error:
                self.lost.setdefault(self.fleet.name(node), f"its answer could not be understood: {told(error)}"[:200])
                continue
            offset = self.offsets.get(node)
            nodes[node] = structs.replace(
                pace,
                name=self.fleet.name(node),
                clock_offset_seconds=offset.seconds if offset is not None else None,
                clock_uncertainty_seconds=offset.uncertainty if offset is not None else 0.0,
            )
            self.unread += pace.unread
        return nodes


def _by_node(pids: Sequence[tuple[int, tuple[int, int]]]) -> dict[str, tuple[tuple[int, int], ...]]:
    return {str(node): tuple(pid for at, pid in pids if at == node) for node in {at for at, _ in pids}}


def _gets_on(paces: Paces) -> bool:
    return paces.silent_seconds < WAIT_SECONDS


def _long_enough(share: float) -> float:
    """Seconds in which a rank stands `HITS` times in what makes it late."""
    return float(min(MOST_SAMPLES, max(LEAST_SAMPLES, math.ceil(HITS / max(share, 0.01) * BETWEEN))))


def _chosen(job: Members, paces: Paces) -> list[JobMember]:
    """Whose stacks are looked at: the late ranks, their data loader workers, and some of the others."""
    late = list(dict.fromkeys(rank for pace in paces.late for rank in pace.late))[:MOST_LATE]
    every = [member for member in job.members if member.role == "rank"]
    own = [member for member in every if member.rank in late]
    nodes = {member.node for member in own}
    others = sorted(
        (member for member in every if member.rank not in late),
        key=lambda job_member: (job_member.node not in nodes, job_member.rank or 0),
    )
    workers = [
        member
        for rank in own
        for member in [
            member
            for member in job.members
            if member.role == "data loader" and member.node == rank.node and member.of == rank.process.pid
        ][:MOST_WORKERS]
    ]
    return [*own, *workers, *others[:MOST_OTHERS]]
