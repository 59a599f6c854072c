"""The plan for Horovod: one horovodrun on the head (options as in horovod 0.28.1, runner/launch.py)."""

import re

from gpudoctor.launch.emitters.parts import beside, refuse_elastic
from gpudoctor.launch.plan import Block, CannotEmit, Emission, LaunchPlan
from gpudoctor.launch.words import comment, prefixed, reasons, without_leftovers

INTERFACE = re.compile(r"=?([A-Za-z0-9_.:-]+(?:,[A-Za-z0-9_.:-]+)*)")
CODE = """\
import horovod.torch as hvd
import torch

hvd.init()
torch.cuda.set_device(hvd.local_rank())
# Scale the learning rate by hvd.size(), and give the sampler num_replicas=hvd.size(), rank=hvd.rank().
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
"""


def emit(plan: LaunchPlan) -> Emission:
    """The command for the head, and the lines of a script that is started by it. Raises `CannotEmit`."""
    refuse_elastic(plan, "Horovod")
    head = plan.nodes[0]
    if colons := [node.name for node in plan.nodes if ":" in node.name and len(plan.nodes) > 1]:
        raise CannotEmit(
            f"-H {colons[0]}: horovodrun divides names from slots by a colon; give the node's name, not its address"
        )
    hosts = ",".join(f"{node.name}:{node.processes}" for node in plan.nodes)
    interface = _interface(plan)
    words = [
        beside(plan.python, "horovodrun"),
        "-np",
        str(plan.world_size),
        *(["-H", hosts] if len(plan.nodes) > 1 else []),
        *(["--network-interfaces", interface] if interface and len(plan.nodes) > 1 else []),
        plan.python,
        *plan.program,
    ]
    about = "Run it once. horovodrun reaches the other hosts by ssh without a password, and hands this environment on."
    lines = [*([comment(about)] if len(plan.nodes) > 1 else []), *reasons(plan.environment)]
    lines.append(prefixed(plan.environment, without_leftovers(plan, words, plan.environment)))
    single = [
        f"{variable.name}={variable.value} is for {node.name} only; horovodrun sets one environment everywhere."
        for node in plan.nodes
        for variable in node.environment
        if len(plan.nodes) > 1
    ]
    return Emission(
        blocks=(
            Block(f"on {head.name} only" if len(plan.nodes) > 1 else f"on {head.name}", "\n".join(lines) + "\n", 0),
        ),
        code=CODE,
        notes=(
            "Horovod sets HOROVOD_RANK, HOROVOD_LOCAL_RANK and HOROVOD_SIZE, and neither RANK nor MASTER_ADDR: the "
            "script asks hvd.rank(), and does not call init_process_group.",
            "Horovod's last release is 0.28.1 of 2023, and Lightning removed its strategy in 2.0; DDP under torchrun "
            "does the same: gpudoctor launch --framework torchrun.",
            *single,
        ),
    )


def _interface(plan: LaunchPlan) -> str:
    """The interfaces that the plan names, where they are names and no pattern."""
    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        for variable in plan.environment:
            if variable.name == name and (found := INTERFACE.fullmatch(variable.value)):
                return found[1]
    return ""
