"""torch.multiprocessing.spawn: the script itself starts the processes of its node, and computes each one's rank.

rank = node rank x processes a node + local rank. The tutorials' `rank = gpu` gives every node the same ranks, and a
nprocs that is a constant of its own drifts from the world size (facts of issue 5, part 2).
"""

from gpudoctor.knowledge.wording import counted
from gpudoctor.launch import words
from gpudoctor.launch.plan import Block, CannotEmit, Emission, LaunchPlan, NodePlan, Variable

WRAPPER = """\
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

NODES = {nodes}
PROCESSES = {processes}  # a node


def worker(local_rank: int) -> None:
    rank = int(os.environ.get("NODE_RANK", "0")) * PROCESSES + local_rank
{device}
    dist.init_process_group("{backend}", rank=rank, world_size=NODES * PROCESSES)
    try:
        main(rank, local_rank)  # your training, with DistributedDataParallel(model{device_ids})
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
{address}    mp.spawn(worker, nprocs=PROCESSES)
"""
DEVICE = "    torch.cuda.set_device(local_rank)  # before the process group: NCCL takes the current device"
DEFAULTS = """\
    os.environ.setdefault("MASTER_ADDR", "{address}")
    os.environ.setdefault("MASTER_PORT", "{port}")
"""


def emit(plan: LaunchPlan) -> Emission:
    """What to paste. Raises `CannotEmit`."""
    if plan.elastic:
        raise CannotEmit("--elastic: mp.spawn ends when one process does; --framework torchrun is elastic")
    counts = sorted({node.processes for node in plan.nodes})
    if len(counts) > 1:
        raise CannotEmit(
            f"nodes with {counts[0]} to {counts[-1]} processes: the wrapper's rank needs as many on each; "
            f"--gpus-per-node {counts[0]}, or --framework torchrun"
        )
    if plan.strategy and plan.strategy not in ("ddp", "fsdp"):
        raise CannotEmit(f"--strategy {plan.strategy}: mp.spawn starts processes; the script chooses its strategy")
    notes = [
        'The code goes to the end of the script, whose training becomes main(rank, local_rank); "if __name__" has to '
        "stay, for every process imports the script anew."
    ]
    if len(plan.nodes) > 1:
        notes.append("mp.spawn is for one machine; on several, torchrun does the same without a wrapper, and restarts.")
    return Emission(blocks=tuple(_block(plan, node) for node in plan.nodes), code=wrapper(plan), notes=tuple(notes))


def wrapper(plan: LaunchPlan) -> str:
    """The lines for the script."""
    cuda = plan.accelerator == "cuda"
    text = WRAPPER.format(
        nodes=len(plan.nodes),
        processes=plan.nodes[0].processes,
        device=DEVICE if cuda else "",
        backend="nccl" if cuda else "gloo",
        device_ids=", device_ids=[local_rank]" if cuda else "",
        address=DEFAULTS.format(address=plan.master_address, port=plan.master_port) if len(plan.nodes) == 1 else "",
    )
    return text.replace("local_rank\n\n    dist", "local_rank\n    dist") if not cuda else text


def _block(plan: LaunchPlan, node: NodePlan) -> Block:
    rendezvous: tuple[Variable, ...] = ()
    if len(plan.nodes) > 1:
        rendezvous = (
            Variable("MASTER_ADDR", plan.master_address, _end(plan.why.get("master_address", ""))),
            Variable("MASTER_PORT", str(plan.master_port), _end(plan.why.get("master_port", ""))),
            Variable("NODE_RANK", str(node.rank), "The wrapper computes each process's rank from it."),
        )
    variables = (*rendezvous, *words.of_node(plan, node))
    comments = [
        words.comment(f"The script starts {counted(node.processes, 'process', 'processes')} here by mp.spawn."),
        *words.reasons_for(plan, node, *rendezvous),
    ]
    command = words.without_leftovers(plan, [plan.python, *plan.program], variables)
    return Block(words.title(plan, node), "\n".join([*comments, words.prefixed(variables, command)]), node.rank)


def _end(reason: str) -> str:
    return f"{reason}." if reason else ""
