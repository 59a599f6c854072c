"""From the times of all ranks, and the samples of some, to what is said of a job."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, structs

from gpudoctor.causes import CAUSES
from gpudoctor.envelope import Seen
from gpudoctor.hang.job import JobMember, Members
from gpudoctor.hang.users import words
from gpudoctor.knowledge.wording import counted, listed, ranges
from gpudoctor.slow.lateness import GroupPace, pace_of, roots
from gpudoctor.slow.links import SlowNetwork, slow_network
from gpudoctor.slow.report import CAUSE, JobPace, RankMemory, SlowRanks
from gpudoctor.slow.times import LEAST, RankClock, clocks, groups, steps_begin
from gpudoctor.slow.where import TimeSpent, time_spent
from gpudoctor.slow.why import LateRank, Reason, reason
from gpudoctor.slow.words import duration, late
from gpudoctor.snapshot.evidence import GpuUse
from gpudoctor.snapshot.pace import INSPECTED, NodePace
from gpudoctor.sure import PROVED, SEEN

MOST_GROUPS = 64
"""Whose times are told; the late ones first."""
WAITS_FOR_NETWORK = ("", "collective", "backward")
"""Parts of a step in which a rank waits for the network too: DistributedDataParallel sums up in the backward."""
STANDS_STILL_SECONDS = 10.0
STANDS_STILL_STEPS = 20
"""So long after the last collective a job counts as one that does not get on."""


class Paces(Struct, frozen=True, kw_only=True):
    """What the recorders say of a job."""

    ranks: dict[int, RankClock]
    groups: tuple[GroupPace, ...] = ()
    notes: tuple[str, ...] = ()
    silent_seconds: float = 0.0
    """Since the last collective that any rank has issued."""

    @property
    def late(self) -> list[GroupPace]:
        """The groups in which ranks are late, and wait for nobody elsewhere."""
        return roots(self.groups)


def paces_of(nodes: Sequence[NodePace], since_ns: int = 0) -> Paces:
    """`since_ns`: only what was issued after this moment of the head's clock."""
    ranks = clocks(nodes)
    notes: list[str] = []
    group_paces: list[GroupPace] = []
    every = list(groups(ranks, since_ns))
    timed = {frozenset(group.ranks) for group in every if group.timed}
    for group in every:
        if not group.timed and frozenset(group.ranks) in timed:
            continue  # of these ranks it is known when their GPUs came, which tells more
        uncertainty = max((ranks[rank].uncertainty for rank in group.ranks), default=0.0)
        pace = pace_of(group, 2 * uncertainty if len({*group.nodes}) > 1 else 0.0)
        if pace.late and pace.runs_ahead and not pace.timed:
            most = max(pace.lateness[rank] for rank in pace.late)
            notes.append(
                f"{_ranks(pace.late)} issued what group {pace.key} does {duration(most)} after the others, "
                + (
                    "whose CPUs run ahead of their GPUs: that does not tell whether its GPU is late"
                    if pace.backend == "nccl"
                    else "by its clock, which is more than a step: that clock differs, and was not measured"
                )
            )
            pace = structs.replace(pace, late=(), lost_seconds=0.0, grows=())
        group_paces.append(pace)
    silent = [
        clock.times.asked_at - max(group.created_ns[-1] for group in clock.times.groups) / 1e9
        for clock in ranks.values()
        if clock.times.groups
    ]
    return Paces(
        ranks=ranks, groups=tuple(group_paces), notes=tuple(notes), silent_seconds=max(0.0, min(silent, default=0.0))
    )


def concluded(
    job: Members,
    nodes: Sequence[NodePace],
    first: Paces,
    window: Paces | None,
    sampled: Sequence[NodePace] = (),
    seconds: float = 0.0,
) -> JobPace:
    """`first`: of all that the recorders held. `window`: of what was issued while stacks were looked at, which must
    bear it out; None where nobody was late."""
    slow: tuple[SlowRanks, ...] = ()
    passed_on: list[str] = []
    notes = list(first.notes)
    late = first.late
    if window is not None:
        now = {(pace.key, rank) for pace in window.groups for rank in pace.late}
        seen = {pace.key for pace in window.groups}
        borne_out = [
            pace for pace in late if pace.key not in seen or any((pace.key, rank) in now for rank in pace.late)
        ]
        notes += [
            f"{_ranks(pace.late)} came late to group {pace.key}, and does so no more"
            for pace in late
            if pace not in borne_out
        ]
        named = {pace.key: _slow(job, sampled, pace, window, first) for pace in borne_out}
        slow = tuple(found for found in named.values() if found is not None)
        passed_on = [
            f"{_ranks(pace.late)} came late to group {pace.key}, and was not seen to do anything of its own for longer "
            "than others: "
            + (
                "its CPU may have waited for its GPU where all wait for theirs (TORCH_NCCL_ENABLE_TIMING=1 before the "
                "start records when GPUs come to a collective)"
                if _behind_gpu(pace)
                else "what it waits for may come late, by its network"
            )
            for pace in borne_out
            if named[pace.key] is None
        ]
        notes += passed_on
    if slow and (any(pace.backend == "nccl" for pace in late) or any(each.phase == "GPU" for each in slow)):
        notes += _unplaced(job, sampled)
    # A way that is full now and then only may have been free in one of both looks.
    networks = ((slow_network(looked), looked) for looked in (nodes, sampled))
    network, there = next((pair for pair in networks if pair[0] is not None), (None, nodes))
    if network is not None:  # who waits for it comes late, and is not the reason
        slow = (
            _of_network(job, there, first, network),
            *(late_ranks for late_ranks in slow if late_ranks.phase not in WAITS_FOR_NETWORK),
        )
    world = max((member.world_size or 0 for member in job.members), default=0)
    unknown = _unknown(job, nodes, first, world) or next(iter(passed_on), "")
    return JobPace(
        id=job.id,
        user=words(job.user) if job.user else "",
        world_size=world,
        verdict="slow" if slow else "unknown" if unknown else "even",
        unknown=unknown,
        slow=tuple(sorted(slow, key=lambda ranks: -ranks.lost_seconds / max(1e-9, ranks.step_seconds))),
        groups=tuple(sorted(first.groups, key=lambda pace: -pace.share)[:MOST_GROUPS]),
        memory=tuple(_memory(job, nodes)),
        notes=tuple(notes),
        samples_seconds=round(seconds, 1),
    )


def _unplaced(job: Members, sampled: Sequence[NodePace]) -> list[str]:
    """Where NVML tells other numbers of processes than /proc does, whose GPU it is cannot be told."""
    pids = {(member.node, member.process.pid) for member in job.members if member.role == "rank"}
    on_gpus = {(number, pid) for number, node in enumerate(sampled) for gpu in node.gpus for pid in gpu.pids}
    if not any(node.gpus for node in sampled) or pids & on_gpus:
        return []
    return [
        "NVML names none of its ranks on a GPU (a container may have numbers of its own): whether the late rank's GPU "
        "is throttled or shared is not known"
    ]


def _of_network(job: Members, nodes: Sequence[NodePace], first: Paces, network: SlowNetwork) -> SlowRanks:
    host = nodes[network.node].host
    of = f"of {host}" if network.to is None else f"from {host} to {nodes[network.to].host}"
    ranks = [member.rank for member in job.members if member.node == network.node and member.role == "rank"]
    return SlowRanks(
        ranks=tuple(sorted(rank for rank in ranks if rank is not None)),
        hosts=tuple(nodes[end].host for end in (network.node, network.to) if end is not None),
        lost_seconds=0.0,
        step_seconds=max((pace.step_seconds for pace in first.groups), default=0.0),
        lateness={},
        phase="network",
        why="network",
        summary=f"the network {of} is slow, and all ranks wait for it: {network.words}",
        evidence=network.evidence,
        fix=CAUSES[CAUSE].remedy("network"),
        certainty=SEEN,
    )


def _unknown(job: Members, nodes: Sequence[NodePace], paces: Paces, world: int) -> str:
    """What stands against "no rank is late"."""
    reasons = [unread.reason for node in nodes for unread in node.unread if unread.what.startswith("flight recorder")]
    seen = len(paces.ranks)
    if not seen:
        return reasons[0] if reasons else "no rank was seen"
    if seen < max(world, sum(member.role == "rank" for member in job.members)):
        why = f": {reasons[0]}" if reasons else ""
        return f"{counted(seen, 'rank')} of {world} could be asked{why}"
    if not paces.groups:
        own = [group for clock in paces.ranks.values() for group in clock.times.groups]
        most = max((len(each.kinds) - steps_begin(each.kinds) for each in own), default=0)
        if any(clock.times.pipelines for clock in paces.ranks.values()):
            return "its ranks are stages of a pipeline, which come to collectives at different times by design"
        return (
            f"too few collectives so far: {most}, and {LEAST} are compared at least"
            if most < LEAST
            else "the ranks have no process group in common whose collectives could be compared"
        )
    step = max(pace.step_seconds for pace in paces.groups)
    if paces.silent_seconds > max(STANDS_STILL_SECONDS, STANDS_STILL_STEPS * step):
        return f"no rank has issued a collective for {paces.silent_seconds:.0f} s: gpudoctor hang tells why"
    if paces.notes:
        return paces.notes[0]
    if any(pace.backend == "nccl" and not pace.timed for pace in paces.groups):
        return (
            "no rank's CPU is late; how long each GPU was in its collectives is not recorded "
            "(TORCH_NCCL_ENABLE_TIMING=1 before the start records it, or NCCL's Inspector)"
        )
    return ""


def _slow(job: Members, sampled: Sequence[NodePace], pace: GroupPace, window: Paces, first: Paces) -> SlowRanks | None:
    """None: it may only pass on what it waited for."""
    own = next((group for group in window.groups if group.key == pace.key and set(group.late) & set(pace.late)), pace)
    looked = [_of_rank(job, sampled, rank, pace) for rank in pace.late]
    there = [rank for rank in looked if rank is not None]
    nodes = len({clock.node for clock in first.ranks.values()})
    spent = time_spent(
        [rank.process for rank in there],
        there[0].others if there else (),
        own.share,
        pace.backend,
        may_wait=_passes_on(pace, nodes),
    )
    why = next((reason_seen for rank in there if (reason_seen := reason(rank, spent)) is not None), None)
    if spent is None and why is None and _passes_on(pace, nodes):
        return None
    # What is launched on a GPU that has much to do, and what is copied to it, waits in the middle of a line.
    code_of_all = spent is not None and spent.others_too and spent.phase != "input"
    if _behind_gpu(pace) and (spent is None or code_of_all) and (why is None or why.variant == "host-code"):
        return None
    hosts = tuple(dict.fromkeys(first.ranks[rank].host for rank in pace.late))
    variant = why.variant if why is not None else ""
    return SlowRanks(
        ranks=pace.late,
        hosts=hosts,
        lost_seconds=own.lost_seconds,
        step_seconds=own.step_seconds,
        lateness={rank: pace.lateness[rank] for rank in pace.ranks}
        if len(pace.ranks) <= 64
        else {rank: pace.lateness[rank] for rank in pace.late},
        phase=spent.phase if spent is not None else "GPU" if variant.startswith("gpu") else "",
        where=spent.where if spent is not None else None,
        why=variant,
        summary=_summary(pace, own, spent, why, nodes > 1, hosts),
        evidence=tuple(_evidence(pace, own, spent, why)),
        fix=CAUSES[CAUSE].remedy(variant),
        certainty=SEEN if spent is None else PROVED,
    )


def _passes_on(pace: GroupPace, nodes: int) -> bool:
    """Whether what it waited for may have come late to it. A collective of gloo ends on each rank when its own part has
    come, and a slow way delays all that this one does next; NCCL's are waited for by the GPU."""
    return pace.backend == "gloo" and nodes > 1


def _behind_gpu(pace: GroupPace) -> bool:
    """Whether it is only known when CPUs came to the collectives, which may have waited for their GPUs before."""
    return pace.backend == "nccl" and not pace.timed


def _summary(
    pace: GroupPace,
    own: GroupPace,
    spent: TimeSpent | None,
    why: Reason | None,
    several: bool,
    hosts: Sequence[str],
) -> str:
    one = len(pace.late) == 1
    who = _ranks(pace.late) + (f" on {listed(hosts)}" if several else "")
    unit = "step" if own.is_step else "collective"
    cost = f"{duration(own.lost_seconds)} of each {unit} of {duration(own.step_seconds)} ({own.share:.0%})"
    place = ""
    if spent is not None:
        line = f" at {spent.where.file.rpartition('/')[2]}:{spent.where.line}" if spent.where is not None else ""
        place = f", in {_phase_words(spent)}{line}"
    reasons = f": {why.words}" if why is not None and why.words else ""
    return f"{who} {'is' if one else 'are'} late, and all others wait {cost}{place}{reasons}"


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank{'' if len(ranks) == 1 else 's'} {ranges(ranks)}"


def _phase_words(spent: TimeSpent) -> str:
    return {"GPU": "a wait for its GPU", "host code": "its own code", "input": "its input"}.get(
        spent.phase, f"the {spent.phase}"
    )


def _evidence(pace: GroupPace, own: GroupPace, spent: TimeSpent | None, why: Reason | None) -> Iterator[Seen]:
    shown = sorted(pace.lateness, key=lambda rank: -pace.lateness[rank])[:8]
    numbers = ", ".join(late(rank, pace.lateness[rank]) for rank in sorted(shown))
    what = "by how long each GPU was in them" if pace.timed else "by when each issued them"
    source = f"{'communicator' if pace.key.endswith(INSPECTED) else 'flight recorders, group'} {pace.key}"
    yield Seen(
        source,
        f"ms later than the others, {what}, of {pace.collectives} collectives in {pace.seconds:.0f} s: {numbers}",
    )
    if pace.grows:
        first, last = pace.grows[0], pace.grows[-1]
        when = (
            "before the first"
            if first >= 0.7 * max(pace.grows)
            else f"from the first ({first * 1e3:.1f} ms) to the last ({last * 1e3:.1f} ms)"
        )
        yield Seen(source, f"of {len(pace.grows)} collectives of a step it falls back {when}")
    if spent is not None:
        others = f"; of the others {spent.others} of {spent.of_others}" if spent.of_others else ""
        yield Seen("samples of its main thread", f"in this part of the step in {spent.samples} of {spent.of}{others}")
    if why is not None:
        yield from why.evidence


# ---------------------------------------------------------------- who is who


def _of_rank(job: Members, sampled: Sequence[NodePace], rank: int, pace: GroupPace) -> LateRank | None:
    """What was looked at of a late rank, and of those that are not."""
    by_pid = {(number, process.pid): process for number, node in enumerate(sampled) for process in node.processes}
    member = next((member for member in job.members if member.role == "rank" and member.rank == rank), None)
    if member is None or (member.node, member.process.pid) not in by_pid:
        return None
    others = [
        by_pid[member.node, member.process.pid]
        for member in job.members
        if member.role == "rank" and member.rank not in pace.late and (member.node, member.process.pid) in by_pid
    ]
    own, rest = _gpus(job, sampled, member)
    return LateRank(
        rank=rank,
        share=pace.share,
        process=by_pid[member.node, member.process.pid],
        workers=tuple(
            by_pid[job_member.node, job_member.process.pid]
            for job_member in job.members
            if job_member.role == "data loader"
            and job_member.node == member.node
            and job_member.of == member.process.pid
            and (job_member.node, job_member.process.pid) in by_pid
        ),
        gpus=own,
        other_gpus=rest,
        others=tuple(others),
        timed=pace.timed,
    )


def _gpus(
    job: Members, sampled: Sequence[NodePace], member: JobMember
) -> tuple[tuple[GpuUse, ...], tuple[GpuUse, ...]]:
    """The GPUs on which a rank runs, and those of the job's other ranks."""
    pids = {(job_member.node, job_member.process.pid) for job_member in job.members if job_member.role == "rank"} - {
        (member.node, member.process.pid)
    }
    every = [(number, gpu) for number, node in enumerate(sampled) for gpu in node.gpus]
    own = tuple(gpu for number, gpu in every if number == member.node and member.process.pid in gpu.pids)
    return own, tuple(gpu for number, gpu in every if gpu not in own and any((number, pid) in pids for pid in gpu.pids))


def _memory(job: Members, nodes: Sequence[NodePace]) -> Iterator[RankMemory]:
    rank_of: Mapping[tuple[int, int], int] = {
        (member.node, member.process.pid): member.rank
        for member in job.members
        if member.role == "rank" and member.rank is not None
    }
    for number, node in enumerate(nodes):
        for peak in node.memory:
            if (number, peak.pid) not in rank_of:
                continue
            gpu = next((gpu for gpu in node.gpus if peak.pid in gpu.pids), None)
            yield RankMemory(
                rank=rank_of[number, peak.pid],
                peak_bytes=peak.peak_bytes,
                limit_bytes=peak.limit_bytes,
                gpu_bytes=gpu.memory_bytes if gpu is not None else None,
                gpu_total_bytes=gpu.memory_total_bytes if gpu is not None else None,
            )
