"""Horovod: one horovodrun on the head. Options as in horovod 0.28.1, runner/launch.py; "np" is -np and --num-proc."""

from gpudoctor.launch.parts import beside
from gpudoctor.launch.plan import CannotEmit, Emission, LaunchPlan, PasteBlock
from gpudoctor.launch.words import comment, prefixed, reasons, without_leftovers
from gpudoctor.launcher.grammar import Grammar
from gpudoctor.launcher.traits import Form, LauncherTraits
from gpudoctor.lazy import lazy_re

OPTIONS = """
    np,-np,--num-proc= check-build,-cb version,-v help,-h disable-cache start-timeout=
    network-interfaces,--network-interface= output-filename= verbose config-file= ssh-port,-p= ssh-identity-file,-i=
    fusion-threshold-mb= cycle-time-ms= cache-capacity= hierarchical-allreduce no-hierarchical-allreduce
    hierarchical-allgather no-hierarchical-allgather torus-allreduce no-torus-allreduce autotune no-autotune
    autotune-log-file= autotune-warmup-samples= autotune-steps-per-sample= autotune-bayes-opt-max-samples=
    autotune-gaussian-process-noise= min-np,--min-num-proc= max-np,--max-num-proc= slots-per-host= elastic-timeout=
    reset-limit= blacklist-cooldown-range== timeline-filename= timeline-mark-cycles no-timeline-mark-cycles
    no-stall-check stall-check stall-check-warning-time-seconds= stall-check-shutdown-time-seconds=
    mpi-threads-disable no-mpi-threads-disable mpi-args= tcp binding-args= num-nccl-streams= thread-affinity=
    gloo-timeout-seconds= log-level= log-with-timestamp log-without-timestamp
    prefix-output-with-timestamp,-prefix-timestamp log-hide-timestamp no-log-hide-timestamp hosts,-H=
    hostfile,-hostfile= host-discovery-script= gloo mpi jsrun
"""
INTERFACE = lazy_re(r"=?([A-Za-z0-9_.:-]+(?:,[A-Za-z0-9_.:-]+)*)")
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


def write(plan: LaunchPlan) -> Emission:
    """The command for the head, and the lines of a script that is started by it. Raises `CannotEmit`."""
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
            PasteBlock(
                f"on {head.name} only" if len(plan.nodes) > 1 else f"on {head.name}", "\n".join(lines) + "\n", 0
            ),
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
            if variable.name == name and (match := INTERFACE.fullmatch(variable.value)):
                return match[1]
    return ""


LAUNCHER = LauncherTraits(
    name="horovod",
    forms=(
        Form(
            launcher="horovodrun",
            programs=("horovodrun",),
            modules=("horovod.runner.launch", "horovod.run.run"),
            grammar=Grammar(OPTIONS),
            takes_command=True,
            all_known=True,
            newest="horovod 0.28",
        ),
    ),
    fans_out=True,
    trains="horovod",
    total_option="np",
    decisive=("np",),
    runs_as="mpirun",
    kept_numbers="np",
    line_prefixes=(r"\[(?P<rank>\d{1,6})\](?:\[[^\]]{0,80}\])?<std(?:out|err|diag)>:?\s?",),
    package="horovod",
    write=write,
    fixed="Horovod is emitted for a fixed set of nodes",
)
