"""torch.multiprocessing.spawn: the script itself starts the processes of its node, and computes each one's rank.

rank = node rank x processes a node + local rank. The tutorials' `rank = gpu` gives every node the same ranks, and a
nprocs that is a constant of its own drifts from the world size.
"""

from gpudoctor.knowledge.wording import counted
from gpudoctor.launch import words
from gpudoctor.launch.plan import Emission, EnvVariable, LaunchPlan, NodePlan, PasteBlock
from gpudoctor.launcher.traits import Form, LauncherTraits

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


def write(plan: LaunchPlan) -> Emission:
    """What to paste."""
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


def _block(plan: LaunchPlan, node: NodePlan) -> PasteBlock:
    rank = EnvVariable("NODE_RANK", str(node.rank), "The wrapper computes each process's rank from it.")
    about = words.comment(f"The script starts {counted(node.processes, 'process', 'processes')} here by mp.spawn.")
    rendezvous = words.rendezvous(plan, rank) if len(plan.nodes) > 1 else ()
    return words.node_block(plan, node, [plan.python, *plan.program], [about], *rendezvous)


LAUNCHER = LauncherTraits(
    name="spawn",
    forms=(Form(launcher="python"),),  # whatever no launcher starts: the script itself may
    bare=True,
    reads_master=True,
    write=write,
    fixed="mp.spawn ends when one process does",
    even="the wrapper's rank needs as many on each",
)
