"""A world that the starts do not agree on, or that not everybody comes to: numbers of nodes and ranks, node ranks."""

from collections.abc import Iterator, Mapping, Sequence

from gpudoctor.causes import CAUSES
from gpudoctor.command import command
from gpudoctor.hang.causes import HangRule
from gpudoctor.hang.job import HangJob, Rank
from gpudoctor.hang.report import HangCause, Seen
from gpudoctor.hang.starts import (
    YOUNG,
    Start,
    command_with,
    groups,
    is_before_training,
    nodes_of,
    ranks_in,
    seen,
    starts_of,
)
from gpudoctor.hang.words import blame, process_of, ranks_of
from gpudoctor.knowledge.wording import counted, listed, ranges
from gpudoctor.launcher.registry import rank_setters
from gpudoctor.launcher.told import number
from gpudoctor.sure import BEST, POSSIBLE, PROVED, SEEN

MISMATCH = "launcher-world-mismatch"
KNOWN = CAUSES[MISMATCH]


def different_numbers_of_nodes(job: HangJob) -> Iterator[HangCause]:
    """Launchers of one job that were told different --nnodes (or --num_machines), and one of them waits."""
    starts = [start for start in starts_of(job) if start.launcher is not None and start.fewest_nodes is not None]
    by_count = groups(starts, "fewest_nodes")
    if len(by_count) < 2 or not any(start.is_waiting for start in starts):
        return
    here = len(nodes_of(starts))
    right = _right(by_count, here)
    wrong = [start for count, several in by_count.items() if count != right for start in several]
    written = f"--{wrong[0].spelled('nnodes')}"
    counts = (
        f"{counted(int(str(count)), 'node')} on {listed(nodes_of(several))}" for count, several in by_count.items()
    )
    yield blame(
        MISMATCH,
        PROVED,  # their command lines
        ranks_in(wrong),
        f"the launchers were told different numbers of nodes: {listed(counts)}",
        [seen(start, f"{written} {start.fewest_nodes}") for start in starts],
        fix=KNOWN.remedy(
            "nodes" if right == here else "more nodes",
            *(command_with(start, nnodes=str(right)) for start in wrong),
            right=right,
            option=written,
            wrong=listed(nodes_of(wrong)),
        ),
    )


def _right(by_count: Mapping[object, Sequence[Start]], here: int) -> int:
    """What most were told; where two are equally frequent, the number of nodes that are there."""
    most = max(len(starts) for starts in by_count.values())
    frequent = [int(str(count)) for count, starts in by_count.items() if len(starts) == most]
    return here if here in frequent else max(frequent)


def same_node_rank(job: HangJob) -> Iterator[HangCause]:
    """Two launchers with a static rendezvous that have one node rank."""
    starts = [start for start in starts_of(job) if start.launcher is not None and start.backend == "static"]
    twice = {rank: several for rank, several in groups(starts, "node_rank").items() if len(several) > 1}
    if not twice or any((start.most_nodes or 0) < 2 for start in starts):
        return
    if not any(start.is_waiting for start in starts):
        return
    count = max(start.most_nodes or 0 for start in starts)
    absent = sorted(set(range(count)) - {start.node_rank for start in starts if start.node_rank is not None})
    surplus = [start for several in twice.values() for start in several[1:]]
    lines = [command_with(start, node_rank=str(rank)) for start, rank in zip(surplus, absent, strict=False)]
    what = listed(f"node rank {rank} on {listed(nodes_of(several))}" for rank, several in twice.items())
    yield blame(
        MISMATCH,
        PROVED,  # their command lines
        ranks_in(start for several in twice.values() for start in several),
        f"two starts have the same node rank: {what}" + (f"; nobody has node rank {ranges(absent)}" if absent else ""),
        [seen(start, f"node rank {start.node_rank} of {counted(start.most_nodes or 0, 'node')}") for start in starts],
        fix=KNOWN.remedy("node ranks", *lines, last=count - 1, surplus=listed(nodes_of(surplus))),
    )


def different_world_sizes(job: HangJob) -> Iterator[HangCause]:
    """Ranks that were told different WORLD_SIZEs, and wait in the rendezvous."""
    sizes: dict[int, list[Rank]] = {}
    for rank in job.ranks:
        if rank.world_size is not None:
            sizes.setdefault(rank.world_size, []).append(rank)
    if len(sizes) < 2 or not any(map(is_before_training, job.ranks)):
        return
    usual = max(sizes, key=lambda size: (len(sizes[size]), size == len(job.ranks), size))
    wrong = [rank for size, ranks in sizes.items() if size != usual for rank in ranks]
    what = listed(
        f"{size} on {ranks_of(ranks)} ({listed(dict.fromkeys(rank.node.host for rank in ranks))})"
        for size, ranks in sorted(sizes.items())
    )
    yield blame(
        MISMATCH,
        PROVED,  # their environments
        wrong,
        f"the ranks were told different world sizes: {what}",
        [
            Seen(process_of(rank), f"WORLD_SIZE={rank.world_size}")
            for rank in (*wrong[:8], *(rank for rank in job.ranks if rank.world_size == usual))
        ][:12],
        fix=KNOWN.remedy("world sizes", command("export WORLD_SIZE={:number}", usual), usual=usual),
    )


def same_rank_twice(job: HangJob) -> Iterator[HangCause]:
    """Two processes that were started with one RANK, none of which has started the other."""
    by_number: dict[int, list[Rank]] = {}
    for rank in job.ranks:
        by_number.setdefault(rank.rank, []).append(rank)
    twice = {number: ranks for number, ranks in by_number.items() if len(ranks) > 1 and not _related(ranks)}
    if not twice or not any(is_before_training(rank) for ranks in twice.values() for rank in ranks):
        return
    if any(len({rank.node.host for rank in ranks}) == 1 and _generations(ranks) > 1 for ranks in twice.values()):
        return  # an old run's rank beside the new one's: that is for others to say
    what = listed(
        f"rank {number} is claimed by {listed(f'pid {rank.pid} on {rank.node.host}' for rank in ranks)}"
        for number, ranks in sorted(twice.items())
    )
    yield blame(
        MISMATCH,
        PROVED,  # their environments
        twice,
        what + (f"; nobody is rank {ranges(job.missing)}" if job.missing else ""),
        [
            Seen(f"{process_of(rank)} environment", f"RANK={rank.rank} WORLD_SIZE={rank.world_size}")
            for ranks in list(twice.values())[:6]
            for rank in ranks
        ],
        fix=KNOWN.remedy("ranks", last=max(job.world_size - 1, 0)),
    )


def _related(ranks: Sequence[Rank]) -> bool:
    """One is the parent of another: a program that its rank has started inherits RANK."""
    own = {(rank.node.host, rank.pid) for rank in ranks}
    return any((rank.node.host, rank.evidence.process.parent) in own for rank in ranks)


def _generations(ranks: Sequence[Rank]) -> int:
    return len({rank.evidence.process.parent for rank in ranks})


def nodes_that_have_not_come(job: HangJob) -> Iterator[HangCause]:
    """Fewer launchers than nodes, and the others wait for longer than a start takes."""
    starts = [start for start in starts_of(job) if start.launcher is not None and start.fewest_nodes]
    waiting = [start for start in starts if start.is_waiting]
    if not waiting or len(groups(starts, "fewest_nodes")) != 1:
        return
    wanted = waiting[0].fewest_nodes or 0
    there = len({(start.where, start.node_rank) for start in starts})
    if there >= wanted or min(start.age for start in waiting) < YOUNG:
        return
    known = {start.node_rank for start in starts if start.node_rank is not None}
    absent = sorted(set(range(wanted)) - known) if waiting[0].backend == "static" else []
    lost = job.evidence.lost
    hidden = f"; {listed(lost)} could not be asked" if lost else ""
    which = f"node {ranges(absent)}" if absent else counted(wanted - there, "node")
    line = (command_with(waiting[0], node_rank=str(absent[0])),) if absent else ()
    yield blame(
        MISMATCH,
        # As many nodes as it wants were looked at; else they may be where nobody has looked.
        SEEN if len(job.evidence.nodes) >= wanted and not lost else POSSIBLE,
        (),
        f"{there} of {wanted} nodes have a launcher of this job, on {listed(nodes_of(starts))}; "
        f"nothing was seen of {which}{hidden}",
        [
            seen(start, f"waits for {wanted} nodes since {start.age:.0f} s, at {start.address}:{start.port}")
            for start in waiting[:8]
        ],
        fix=KNOWN.remedy("absent nodes", *line, which=which, there=there),
        confirm="Look at all of its nodes: `gpudoctor hang --hosts` with every host of the job. A launcher that is "
        "there but not seen here belongs to another job, or ended: its own output says why.",
    )


def ranks_that_have_not_come(job: HangJob) -> Iterator[HangCause]:
    """Ranks of a world without a launcher that waits for them, and the others stay in the rendezvous."""
    starts = [start for start in starts_of(job) if start.launcher is None]
    if not starts or len(starts) != len({rank.rank for rank in job.ranks}) or not job.missing or not job.world_size:
        return
    if not all(is_before_training(rank) for rank in job.ranks) or min(start.age for start in starts) < YOUNG:
        return
    since = max(start.age for start in starts)
    told = [event for node in job.nodes for event in node.kernel if (event.seconds_ago or 0.0) <= since]
    if told or any(rank.state == "Z" for rank in job.ranks):
        return  # somebody has died: that is said elsewhere
    if any(launcher.kind in rank_setters() for launcher in job.launchers):
        return
    environment = job.ranks[0].environment
    size = number(environment.get("WORLD_SIZE")) or job.world_size
    tasks = number(environment.get("SLURM_NTASKS"))
    evidence = [
        seen(start, f"WORLD_SIZE={start.world_size}, in the rendezvous since {start.age:.0f} s") for start in starts[:9]
    ]
    if tasks is not None and size > tasks:  # nobody else can start them
        sure, and_slurm = PROVED, f", and SLURM started {counted(tasks, 'task')}"
        evidence.append(Seen("SLURM", f"SLURM_NTASKS={tasks}, WORLD_SIZE={size}"))
    else:  # of other nodes, where those were looked at, too
        sure, and_slurm = (BEST if job.evidence.lost or len(job.evidence.nodes) == 1 else SEEN), ""
    yield blame(
        MISMATCH,
        sure,
        job.missing,
        f"{len(starts)} of {counted(job.world_size, 'rank')} were started; "
        f"nothing was seen of {ranks_of(job.missing)}{and_slurm}",
        evidence,
        fix=KNOWN.remedy("absent ranks"),
        confirm="Look for the missing ranks on the other hosts: `gpudoctor hang --hosts` with every host of the job. A "
        "rank that has ended says why in its own output.",
    )


RULES: tuple[HangRule, ...] = (
    different_numbers_of_nodes,
    same_node_rank,
    different_world_sizes,
    same_rank_twice,
    nodes_that_have_not_come,
    ranks_that_have_not_come,
)
