"""A world that the starts do not agree on, or that not everybody comes to: numbers of nodes and ranks, node ranks."""

from collections.abc import Iterator, Mapping, Sequence

from gpudoctor.check import Fix
from gpudoctor.command import Command, command
from gpudoctor.hang.causes import Rule
from gpudoctor.hang.job import Job, Rank
from gpudoctor.hang.report import HangCause, Seen
from gpudoctor.hang.starts import (
    WAITS_FOR_RANKS,
    YOUNG,
    Told,
    age,
    command_with,
    groups,
    is_before_training,
    name,
    nodes_of,
    number,
    seen,
    told,
)
from gpudoctor.knowledge.wording import counted, listed, ranges

MISMATCH = "launcher-world-mismatch"


def different_numbers_of_nodes(job: Job) -> Iterator[HangCause]:
    """Launchers of one job that were told different --nnodes (or --num_machines), and one of them waits."""
    starts = [each for each in told(job) if each.launcher is not None and each.fewest_nodes is not None]
    by_count = groups(starts, "fewest_nodes")
    if len(by_count) < 2 or not any(each.is_waiting for each in starts):
        return
    here = len(nodes_of(starts))
    right = _right(by_count, here)
    wrong = [each for count, entries in by_count.items() if count != right for each in entries]
    option = "num_machines" if wrong[0].kind == "accelerate" else "nnodes"
    told_what = listed(
        f"{counted(int(str(count)), 'node')} on {listed(nodes_of(entries))}" for count, entries in by_count.items()
    )
    fixed = [line for each in wrong if (line := command_with(each, **{option: str(right)}))]
    yield HangCause(
        cause=MISMATCH,
        confidence=0.97,
        ranks=_ranks(wrong),
        evidence=tuple(seen(each, f"--{option.replace('_', '-')} {each.fewest_nodes}") for each in starts),
        summary=f"The launchers were told different numbers of nodes: {told_what}",
        fix=Fix(
            f"Start all nodes with the same number: {right}, if the {counted(here, 'node')} seen are all of them. "
            f"End the launchers that wait, then start again, on {listed(nodes_of(wrong))} with "
            f"--{option.replace('_', '-')} {right}."
            if right == here
            else f"Start all nodes with the same number of nodes, and as many of them; most were told {right}.",
            tuple(fixed),
        ),
    )


def _right(by_count: Mapping[object, Sequence[Told]], here: int) -> int:
    """What most were told; where two are equally frequent, the number of nodes that are there."""
    most = max(len(entries) for entries in by_count.values())
    frequent = [int(str(count)) for count, entries in by_count.items() if len(entries) == most]
    return here if here in frequent else max(frequent)


def same_node_rank(job: Job) -> Iterator[HangCause]:
    """Two launchers with a static rendezvous that have one node rank."""
    starts = [each for each in told(job) if each.launcher is not None and each.backend == "static"]
    twice = {rank: entries for rank, entries in groups(starts, "node_rank").items() if len(entries) > 1}
    several = [each for each in starts if (each.most_nodes or 0) > 1]
    if not twice or len(several) != len(starts) or not any(each.is_waiting for each in starts):
        return
    count = max(each.most_nodes or 0 for each in starts)
    free = sorted(set(range(count)) - {each.node_rank for each in starts if each.node_rank is not None})
    doubled = [each for entries in twice.values() for each in entries]
    commands: list[Command] = []
    for entries in twice.values():
        for each in entries[1:]:
            if free:
                option = "machine_rank" if each.kind == "accelerate" else "node_rank"
                commands.append(command_with(each, **{option: str(free.pop(0))}))
    what = listed(f"node rank {rank} on {listed(nodes_of(entries))}" for rank, entries in twice.items())
    missing = sorted(set(range(count)) - {each.node_rank for each in starts if each.node_rank is not None})
    yield HangCause(
        cause=MISMATCH,
        confidence=0.97,
        ranks=_ranks(doubled),
        evidence=tuple(
            seen(each, f"node rank {each.node_rank} of {counted(each.most_nodes or 0, 'node')}") for each in starts
        ),
        summary=f"Two starts have the same node rank: {what}"
        + (f"; nobody has node rank {ranges(missing)}" if missing else ""),
        fix=Fix(
            "Give every node a rank of its own, 0 to "
            f"{count - 1}. End all launchers, for those that wait have counted the wrong one already, and start "
            f"{listed(nodes_of([each for entries in twice.values() for each in entries[1:]]))} with the free one.",
            tuple(commands),
        ),
    )


def different_world_sizes(job: Job) -> Iterator[HangCause]:
    """Ranks that were told different WORLD_SIZEs, and wait in the rendezvous."""
    waiting = [rank for rank in job.ranks if is_before_training(rank)]
    sizes: dict[int, list[Rank]] = {}
    for rank in job.ranks:
        if rank.world_size is not None:
            sizes.setdefault(rank.world_size, []).append(rank)
    if len(sizes) < 2 or not waiting:
        return
    usual = max(sizes, key=lambda size: (len(sizes[size]), size == len(job.ranks), size))
    wrong = [rank for size, ranks in sizes.items() if size != usual for rank in ranks]
    what = listed(
        f"{size} on {_rank_words(ranks)} ({listed(dict.fromkeys(name(rank.node) for rank in ranks))})"
        for size, ranks in sorted(sizes.items())
    )
    yield HangCause(
        cause=MISMATCH,
        confidence=0.95,
        ranks=tuple(sorted({rank.rank for rank in wrong})),
        evidence=tuple(
            Seen(f"rank {rank.rank} pid {rank.pid} on {name(rank.node)}", f"WORLD_SIZE={rank.world_size}")
            for rank in (*wrong[:8], *(rank for rank in job.ranks if rank.world_size == usual))
        )[:12],
        summary=f"The ranks were told different world sizes: {what}",
        fix=Fix(
            f"Start every rank with the same WORLD_SIZE, the number of all ranks together; most were told {usual}.",
            (command("export WORLD_SIZE={:number}", usual),),
        ),
    )


def same_rank_twice(job: Job) -> Iterator[HangCause]:
    """Two processes that were started with one RANK, none of which has started the other."""
    by_number: dict[int, list[Rank]] = {}
    for rank in job.ranks:
        by_number.setdefault(rank.rank, []).append(rank)
    twice = {number: ranks for number, ranks in by_number.items() if len(ranks) > 1 and not _related(ranks)}
    if not twice or not any(is_before_training(rank) for ranks in twice.values() for rank in ranks):
        return
    if any(len({name(rank.node) for rank in ranks}) == 1 and _generations(ranks) > 1 for ranks in twice.values()):
        return  # an old run's rank beside the new one's: that is for others to say
    what = listed(
        f"rank {number} is claimed by {listed(f'pid {rank.pid} on {name(rank.node)}' for rank in ranks)}"
        for number, ranks in sorted(twice.items())
    )
    absent = job.missing
    yield HangCause(
        cause=MISMATCH,
        confidence=0.93,
        ranks=tuple(sorted(twice)),
        evidence=tuple(
            Seen(f"pid {rank.pid} on {name(rank.node)} environment", f"RANK={rank.rank} WORLD_SIZE={rank.world_size}")
            for ranks in list(twice.values())[:6]
            for rank in ranks
        ),
        summary=what[:1].upper() + what[1:] + (f"; nobody is rank {ranges(absent)}" if absent else ""),
        fix=Fix(
            f"Start every process with a RANK of its own, 0 to {max(job.world_size - 1, 0)}: on each node, the node's "
            "number times the ranks a node, plus the local rank.",
        ),
    )  # fmt: skip


def _related(ranks: Sequence[Rank]) -> bool:
    """One is the parent of another: a program that its rank has started inherits RANK."""
    own = {(name(rank.node), rank.pid) for rank in ranks}
    return any((name(rank.node), rank.evidence.process.parent) in own for rank in ranks)


def _generations(ranks: Sequence[Rank]) -> int:
    return len({rank.evidence.process.parent for rank in ranks})


def nodes_that_have_not_come(job: Job) -> Iterator[HangCause]:
    """Fewer launchers than nodes, and the others wait for longer than a start takes."""
    starts = [each for each in told(job) if each.launcher is not None and each.fewest_nodes]
    waiting = [each for each in starts if each.is_waiting]
    if not waiting or len(groups(starts, "fewest_nodes")) != 1:
        return
    wanted = waiting[0].fewest_nodes or 0
    there = len({(each.where, each.node_rank) for each in starts})
    if there >= wanted or min(age(each) for each in waiting) < YOUNG:
        return
    known = {each.node_rank for each in starts if each.node_rank is not None}
    absent = sorted(set(range(wanted)) - known) if waiting[0].backend == "static" else []
    looked = len(job.evidence.nodes)
    lost = job.evidence.lost
    hidden = f"; {listed(lost)} could not be asked" if lost else ""
    which = f"node {ranges(absent)}" if absent else counted(wanted - there, "node")
    confidence = 0.75 if looked >= wanted and not lost else 0.45
    yield HangCause(
        cause=MISMATCH,
        confidence=confidence,
        evidence=tuple(
            seen(each, f"waits for {wanted} nodes since {age(each):.0f} s, at {each.address}:{each.port}")
            for each in waiting
        )[:8],
        summary=f"{there} of {wanted} nodes have a launcher of this job, on {listed(nodes_of(starts))}; "
        f"nothing was seen of {which}{hidden}",
        fix=Fix(
            f"Start the job on {which} too, towards the same address, or start all nodes with --nnodes {there}.",
            (command_with(waiting[0], node_rank=str(absent[0])),) if absent else (),
        ),
        confirm="Look at all of its nodes: `gpudoctor hang --hosts` with every host of the job. A launcher that is "
        "there but not seen here belongs to another job, or ended: its own output says why."
        if confidence < 0.9
        else "",
    )


def ranks_that_have_not_come(job: Job) -> Iterator[HangCause]:
    """Ranks of a world without a launcher that waits for them, and the others stay in the rendezvous."""
    starts = [each for each in told(job) if each.launcher is None]
    if not starts or len(starts) != len({rank.rank for rank in job.ranks}) or not job.missing or not job.world_size:
        return
    if not all(is_before_training(rank) for rank in job.ranks) or min(age(each) for each in starts) < YOUNG:
        return
    if any(rank.state == "Z" for rank in job.ranks) or any(node.kernel for node in job.nodes):
        return  # somebody has died: that is said elsewhere
    if any(each.kind in WAITS_FOR_RANKS for each in job.launchers):
        return
    size, tasks = _slurm_tasks(job)
    sure = size is not None and tasks is not None and size > tasks
    lost = job.evidence.lost
    evidence = [
        seen(each, f"WORLD_SIZE={each.world_size}, in the rendezvous since {age(each):.0f} s") for each in starts
    ]
    if sure:
        evidence.append(Seen("SLURM", f"SLURM_NTASKS={tasks}, WORLD_SIZE={size}"))
    yield HangCause(
        cause=MISMATCH,
        confidence=0.93 if sure else 0.5 if lost or len(job.evidence.nodes) == 1 else 0.7,
        ranks=job.missing,
        evidence=tuple(evidence[:10]),
        summary=f"{len(starts)} of {counted(job.world_size, 'rank')} were started; "
        f"nothing was seen of {_numbers(job.missing)}"
        + (f", and SLURM started {counted(tasks or 0, 'task')}" if sure else ""),
        fix=Fix(
            "Start as many processes as the world size says: with SLURM by srun with --ntasks-per-node of the ranks a "
            "node, else by torchrun on each node, which sets RANK and WORLD_SIZE itself.",
        ),
        confirm=""
        if sure
        else "Look for the missing ranks on the other hosts: `gpudoctor hang --hosts` with every host of the job. A "
        "rank that has ended says why in its own output.",
    )  # fmt: skip


def _slurm_tasks(job: Job) -> tuple[int | None, int | None]:
    environment = job.ranks[0].evidence.process.environment if job.ranks else {}
    return number(environment.get("WORLD_SIZE")) or job.world_size or None, number(environment.get("SLURM_NTASKS"))


def _numbers(ranks: Sequence[int]) -> str:
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {ranges(ranks)}"


def _rank_words(ranks: Sequence[Rank]) -> str:
    return _numbers([rank.rank for rank in ranks])


def _ranks(entries: Sequence[Told]) -> tuple[int, ...]:
    return tuple(sorted({rank.rank for each in entries for rank in each.ranks}))


RULES: tuple[Rule, ...] = (
    different_numbers_of_nodes,
    same_node_rank,
    different_world_sizes,
    same_rank_twice,
    nodes_that_have_not_come,
    ranks_that_have_not_come,
)
