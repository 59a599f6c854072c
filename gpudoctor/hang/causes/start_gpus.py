"""Ranks that share a GPU by mistake, and nodes that NCCL takes for one."""

from collections.abc import Iterator

from gpudoctor.check import Fix
from gpudoctor.command import command
from gpudoctor.hang.causes import Rule
from gpudoctor.hang.job import Job, Rank
from gpudoctor.hang.report import HangCause, Seen
from gpudoctor.hang.starts import is_before_training, name
from gpudoctor.knowledge.wording import counted, listed, ranges
from gpudoctor.snapshot.evidence import NodeEvidence

BEGIN = ("communicator init", "collective", "cuda sync", "backward")


def gpus_are_shared(job: Job) -> Iterator[HangCause]:
    """Several ranks of a node on one GPU, and on no other."""
    for node in job.nodes:
        ranks = {rank.pid: rank for rank in job.ranks if name(rank.node) == name(node)}
        if len(ranks) < 2 or not node.gpus or not any(_may_wait(rank) for rank in ranks.values()):
            continue
        on = {pid: [gpu for gpu in node.gpus if pid in gpu.pids] for pid in ranks}
        for gpu in node.gpus:
            sharing = [ranks[pid] for pid in gpu.pids if pid in ranks and len(on[pid]) == 1]
            if len(sharing) < 2:
                continue
            yield _shared(node, gpu.index, sharing, len(ranks), len(node.gpus))
            break


def _may_wait(rank: Rank) -> bool:
    return rank.place.kind in BEGIN and rank.first_place.kind == rank.place.kind


def _shared(node: NodeEvidence, gpu: int, sharing: list[Rank], ranks: int, gpus: int) -> HangCause:
    visible = {rank.evidence.process.environment.get("CUDA_VISIBLE_DEVICES", "") for rank in sharing}
    one_each = all(value and "," not in value for value in visible)
    too_many = ranks > gpus
    numbers = tuple(sorted(rank.rank for rank in sharing))
    evidence = [
        Seen(f"node {name(node)} GPU {gpu}", f"pids {listed([str(rank.pid) for rank in sharing], 8)} hold memory")
    ]
    evidence += [
        Seen(f"rank {rank.rank} environment", f"LOCAL_RANK={rank.local_rank} CUDA_VISIBLE_DEVICES="
             f"{rank.evidence.process.environment.get('CUDA_VISIBLE_DEVICES', '(not set)')}")
        for rank in sharing[:6]
    ]  # fmt: skip
    setting_up = any(is_before_training(rank) for rank in sharing)
    if one_each or too_many:
        why = (
            f"{counted(ranks, 'rank')} on {counted(gpus, 'GPU')}" if too_many else "CUDA_VISIBLE_DEVICES names it alone"
        )
        return HangCause(
            cause="duplicate-gpu",
            confidence=0.8 if setting_up else 0.5,
            ranks=numbers,
            evidence=tuple(evidence),
            summary=f"Ranks {ranges(numbers)} share GPU {gpu} of {name(node)}: {why}",
            fix=Fix(
                f"Start one rank a GPU: at most {gpus} on {name(node)}, each with a GPU of its own.",
                (command("torchrun --nproc-per-node={:number}", gpus),)
                if too_many
                else (command("unset CUDA_VISIBLE_DEVICES"),),
            ),
            confirm="NCCL_DEBUG=WARN prints `Duplicate GPU detected` where this is the cause.",
        )
    return HangCause(
        cause="device-not-set",
        confidence=0.75 if setting_up else 0.5,
        ranks=tuple(each for each in numbers if each != min(numbers)),
        evidence=tuple(evidence),
        summary=f"Ranks {ranges(numbers)} all use GPU {gpu} of {name(node)}, which has {counted(gpus, 'GPU')}",
        fix=Fix(
            "Choose the device before the first collective: torch.cuda.set_device(int(os.environ['LOCAL_RANK'])), and "
            "init_process_group(..., device_id=torch.device('cuda', local_rank)).",
        ),
        confirm="Print torch.cuda.current_device() and LOCAL_RANK on each rank before init_process_group.",
    )


def hosts_are_taken_for_one(job: Job) -> Iterator[HangCause]:
    """Nodes that NCCL cannot tell apart: it hashes hostname and boot id, or takes NCCL_HOSTID.

    Source: getHostHash in src/misc/utils.cc of NCCL 2.18 to 2.30.
    """
    ranks = [rank for rank in job.ranks if any("libnccl" in each for each in rank.evidence.libraries)]
    if not any(_may_wait(rank) for rank in ranks):
        return
    by_identity: dict[tuple[str, ...], dict[str, list[Rank]]] = {}
    for rank in ranks:
        given = rank.evidence.process.environment.get("NCCL_HOSTID", "")
        node = rank.node
        if not given and (not node.boot_id or not node.hostname):
            continue
        identity: tuple[str, ...] = (given,) if given else (node.hostname, node.boot_id)
        by_identity.setdefault(identity, {}).setdefault(name(node), []).append(rank)
    for identity, nodes in by_identity.items():
        if len(nodes) < 2 or not _are_different_machines([ranks[0].node for ranks in nodes.values()]):
            continue
        by_setting = len(identity) == 1
        what = f"NCCL_HOSTID={identity[0]}" if by_setting else f"hostname {identity[0]} and boot id {identity[1]}"
        yield HangCause(
            cause="host-identity-collision",
            confidence=0.85 if by_setting else 0.7,
            ranks=tuple(sorted(rank.rank for each in nodes.values() for rank in each)),
            evidence=tuple(Seen(f"node {host}", what) for host in nodes),
            summary=f"{listed(nodes)} look like one machine to NCCL: {what}",
            fix=Fix(
                "Give each node an identity of its own: a hostname, or NCCL_HOSTID.",
                (command("unset NCCL_HOSTID"),)
                if by_setting
                else (command("export NCCL_HOSTID={:host}", next(iter(nodes))),),
            ),
            confirm="NCCL_DEBUG=INFO prints `via P2P` or `via SHM` between ranks of different nodes where this is "
            "the cause.",
        )
        return


def _are_different_machines(nodes: list[NodeEvidence]) -> bool:
    """Their GPUs, or where none was read their boot ids, are not the same."""
    gpus = [frozenset(gpu.uuid for gpu in node.gpus if gpu.uuid) for node in nodes]
    if all(gpus):
        return len(set(gpus)) > 1
    return len({node.boot_id for node in nodes if node.boot_id}) > 1


RULES: tuple[Rule, ...] = (gpus_are_shared, hosts_are_taken_for_one)
