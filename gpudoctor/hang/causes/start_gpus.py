"""Ranks that share a GPU by mistake, or see none, and nodes that NCCL takes for one."""

import re
from collections.abc import Iterator

from gpudoctor.hang.causes import (
    CAUSES,
    LIKELY,
    POSSIBLE,
    SEEN,
    HangCause,
    HangJob,
    HangRule,
    Rank,
    Seen,
    blame,
    command,
)
from gpudoctor.hang.doing import in_file
from gpudoctor.hang.relation import source_at
from gpudoctor.hang.starts import is_before_training
from gpudoctor.hang.words import at, numbers_of, ranks_of, stacks_of, verb, who
from gpudoctor.knowledge.places import main_thread
from gpudoctor.knowledge.wording import counted, listed
from gpudoctor.lazy import lazy_re
from gpudoctor.snapshot.evidence import NodeEvidence

C10D = "torch/distributed/distributed_c10d.py"
NCCL, GLOO = "pt_nccl_", "gloo_tcp_"
"""How ProcessGroupNCCL and gloo name their threads."""
DEVICE = lazy_re(r"cuda|device|gpu", re.I)
BEGIN = ("communicator init", "collective", "cuda sync", "backward")


def gpus_are_shared(job: HangJob) -> Iterator[HangCause]:
    """Several ranks of a node on one GPU, and on no other."""
    for node in job.nodes:
        ranks = {rank.pid: rank for rank in job.ranks if rank.node.host == node.host and not _has_communicated(rank)}
        if len(ranks) < 2 or not node.gpus or not any(_may_wait(rank) for rank in ranks.values()):
            continue
        on = {pid: [gpu for gpu in node.gpus if pid in gpu.pids] for pid in ranks}
        for gpu in node.gpus:
            sharing = [ranks[pid] for pid in gpu.pids if pid in ranks and len(on[pid]) == 1]
            if len(sharing) < 2 or _is_wanted(sharing):
                continue
            yield from _shared(node, gpu.index, sharing, len(ranks), len(node.gpus))
            break


def _may_wait(rank: Rank) -> bool:
    return rank.place.kind in BEGIN and rank.first_place.kind == rank.place.kind


def _has_communicated(rank: Rank) -> bool:
    """NCCL refuses two ranks on one GPU where it sets up a communicator: one that works is not what they wait for."""
    recorder = rank.evidence.recorder
    return recorder is not None and any(entry.state == "completed" for entry in recorder.entries)


def _is_wanted(sharing: list[Rank]) -> bool:
    """Each is a host of its own for NCCL, which then lets them share."""
    return len({rank.environment.get("NCCL_HOSTID", "") for rank in sharing}) == len(sharing)


def _shared(node: NodeEvidence, gpu: int, sharing: list[Rank], ranks: int, gpus: int) -> Iterator[HangCause]:
    visible = {rank.environment.get("CUDA_VISIBLE_DEVICES", "") for rank in sharing}
    one_each = all(value and "," not in value for value in visible)
    too_many = ranks > gpus
    evidence = [
        Seen(f"node {node.host} GPU {gpu}", f"pids {listed([str(rank.pid) for rank in sharing], 8)} hold memory")
    ]
    for rank in sharing[:6]:
        value = rank.environment.get("CUDA_VISIBLE_DEVICES", "(not set)")
        evidence.append(
            Seen(f"rank {rank.rank} environment", f"LOCAL_RANK={rank.local_rank} CUDA_VISIBLE_DEVICES={value}")
        )
    # Ranks that train share a GPU as well where somebody wants it so (gloo, MPS).
    sure = SEEN if any(is_before_training(rank) for rank in sharing) else POSSIBLE
    if one_each or too_many:
        if sure == POSSIBLE:  # NCCL refuses them with an error where it sets up a communicator: they are past that
            return
        known = CAUSES["duplicate-gpu"]
        why = (
            f"{counted(ranks, 'rank')} on {counted(gpus, 'GPU')}" if too_many else "CUDA_VISIBLE_DEVICES names it alone"
        )
        fix = known.remedy("", command("unset CUDA_VISIBLE_DEVICES"))
        if too_many:
            fix = known.remedy("too many", gpus=gpus, host=node.host)
        yield blame(
            "duplicate-gpu",
            sure,
            sharing,
            f"{ranks_of(sharing)} share GPU {gpu} of {node.host}: {why}",
            evidence,
            fix=fix,
            confirm="NCCL_DEBUG=WARN prints `Duplicate GPU detected` where this is the cause.",
        )
        return
    yield blame(
        "device-not-set",
        sure,
        numbers_of(sharing)[1:],
        f"{ranks_of(sharing)} all use GPU {gpu} of {node.host}, which has {counted(gpus, 'GPU')}",
        evidence,
        confirm="Print torch.cuda.current_device() and LOCAL_RANK on each rank before init_process_group.",
    )


def hosts_are_taken_for_one(job: HangJob) -> Iterator[HangCause]:
    """Nodes that NCCL cannot tell apart: it hashes hostname and boot id, or takes NCCL_HOSTID.

    Source: getHostHash in src/misc/utils.cc of NCCL 2.18 to 2.30.
    """
    ranks = [rank for rank in job.ranks if any("libnccl" in library for library in rank.evidence.libraries)]
    if not any(_may_wait(rank) for rank in ranks):
        return
    by_identity: dict[tuple[str, ...], dict[str, list[Rank]]] = {}
    for rank in ranks:
        given, node = rank.environment.get("NCCL_HOSTID", ""), rank.node
        if given or (node.boot_id and node.hostname):
            identity: tuple[str, ...] = (given,) if given else (node.hostname, node.boot_id)
            by_identity.setdefault(identity, {}).setdefault(node.host, []).append(rank)
    for identity, nodes in by_identity.items():
        if len(nodes) < 2 or not _are_different_machines([ranks[0].node for ranks in nodes.values()]):
            continue
        by_setting = len(identity) == 1
        what = f"NCCL_HOSTID={identity[0]}" if by_setting else f"hostname {identity[0]} and boot id {identity[1]}"
        line = command("unset NCCL_HOSTID") if by_setting else command("export NCCL_HOSTID={:host}", next(iter(nodes)))
        yield blame(
            "host-identity-collision",
            SEEN,  # NCCL's rule; whether NCCL has come to it is in its log
            [rank for ranks in nodes.values() for rank in ranks],
            f"{listed(nodes)} look like one machine to NCCL: {what}",
            [Seen(f"node {host}", what) for host in nodes],
            fix=CAUSES["host-identity-collision"].remedy("", line),
            confirm="NCCL_DEBUG=INFO prints `via P2P` or `via SHM` between ranks of different nodes where this is "
            "the cause.",
        )
        return


def one_has_taken_gloo(job: HangJob) -> Iterator[HangCause]:
    """A rank that sets up gloo alone, where the others have NCCL: programs choose gloo where they see no GPU."""
    alone = [rank for rank in job.ranks if _sets_up_gloo(rank) and not _has_nccl(rank)]
    others = [rank for rank in job.ranks if rank not in alone]
    if not alone or not others or not all(map(_has_nccl, others)):
        return
    values = ((rank, rank.environment.get("CUDA_VISIBLE_DEVICES", "(not set)")) for rank in alone[:6])
    yield blame(
        "no-gpu-visible",
        SEEN if all(map(_asks_for_its_device, alone)) else LIKELY,  # else an argument may have named gloo
        alone,
        f"{who(alone, 'sets', 'set')} up gloo{at(alone[0].place.user_frame)}, and {ranks_of(others)} "
        f"{verb(others, 'has', 'have')} NCCL: so it is where a program asks whether it sees a GPU",
        (
            *stacks_of(alone),
            *(Seen(f"rank {rank.rank} environment", f"CUDA_VISIBLE_DEVICES={value}") for rank, value in values),
            *stacks_of(others),
        ),
        at=alone[0].place.user_frame,
    )


def _asks_for_its_device(rank: Rank) -> bool:
    """Whether a condition on the device, or what it says in its own line, has led a rank to where it is."""
    context = source_at(rank, rank.place.user_frame)
    if context is None:
        return False
    around = (each.text for each in context.enclosing if each.kind in ("if", "elif", "else"))
    return any(map(DEVICE.search, (context.text, *around)))


def _sets_up_gloo(rank: Rank) -> bool:
    thread = main_thread(rank.evidence.samples[-1], rank.pid) if rank.evidence.samples else None
    return (
        thread is not None
        and rank.place.kind == rank.first_place.kind == "communicator init"
        and (in_file(thread.frames, C10D, "_create_gloo_process_group") or _has_thread(rank, GLOO))
    )


def _has_nccl(rank: Rank) -> bool:
    return _has_thread(rank, NCCL)


def _has_thread(rank: Rank, name: str) -> bool:
    threads = rank.evidence.samples[-1].threads if rank.evidence.samples else ()
    return any(thread.name.startswith(name) for thread in threads)


def _are_different_machines(nodes: list[NodeEvidence]) -> bool:
    """Their GPUs, or where none was read their boot ids, are not the same."""
    gpus = [frozenset(gpu.uuid for gpu in node.gpus if gpu.uuid) for node in nodes]
    if all(gpus):
        return len(set(gpus)) > 1
    return len({node.boot_id for node in nodes if node.boot_id}) > 1


RULES: tuple[HangRule, ...] = (gpus_are_shared, one_has_taken_gloo, hosts_are_taken_for_one)
