"""Rules of `accelerate launch`: C01 to C07 and C11.

What a file of `accelerate config` may say (--config_file) is not known from the text: what is absent is then not told.
"""

from collections.abc import Iterator

from gpudoctor.knowledge.wording import counted
from gpudoctor.lint import allocation, look, processes
from gpudoctor.lint.edits import insert_options
from gpudoctor.lint.model import LintJob, LintLaunch
from gpudoctor.lint.rule import Edit, Example, LintFinding, rule
from gpudoctor.lint.rules.slurm_examples import HEADER
from gpudoctor.lint.understood import whole

_GOOD = (
    "accelerate launch --multi_gpu --num_machines 2 --num_processes 8 --machine_rank {} --main_process_ip 10.20.0.11"
    " --main_process_port 61234 --rdzv_backend static train.py\n"
)
_BOTH = "#@ node 0\n" + _GOOD.format(0) + "#@ node 1\n" + _GOOD.format(1)
_ONE_NODE = "accelerate launch --multi_gpu --num_processes 4 train.py\n"
_PDSH = (
    "accelerate launch --use_deepspeed --deepspeed_hostfile hostfile --num_machines 2 --num_processes 16"
    " --main_process_ip 10.20.0.11 --main_process_port 61234 train.py\n"
)
_STANDARD = _GOOD.replace("--multi_gpu", "--use_deepspeed --deepspeed_multinode_launcher standard")
_DEEPSPEED = (
    "use-deepspeed",
    "deepspeed-config-file",
    "zero-stage",
    "deepspeed-hostfile",
    "deepspeed-multinode-launcher",
)
_OTHER_KINDS = ("multi-gpu", "use-fsdp", "use-megatron-lm", "cpu", "tpu", "use-xpu", "use-mps-device", "config-file")


def _several(job: LintJob) -> Iterator[tuple[LintLaunch, int]]:
    """Launches that name more than one machine, with the number of machines."""
    for launch in job.launches:
        nodes = look.nnodes(launch) if launch.launcher == "accelerate" else None
        if nodes is not None and nodes[1] > 1:
            yield launch, nodes[1]


def _by_variable(job: LintJob) -> Iterator[tuple[LintLaunch, int | None]]:
    """Launches whose number of machines is a variable: with the number that the batch script's header gives it, or
    None where nothing tells it. Nobody writes a variable for one machine alone."""
    for launch in job.launches:
        option = launch.option("num-machines") if launch.launcher == "accelerate" else None
        if option is None or option.value is None or look.nnodes(launch) is not None:
            continue
        if not any(expansion.name and expansion.default is None for expansion in option.value.expansions):
            continue
        machines = allocation.whole(allocation.resolved(job, option.value))
        if machines is None or machines > 1:
            yield launch, machines


def _is_deepspeed(launch: LintLaunch) -> bool:
    return launch.option(*_DEEPSPEED) is not None


def _by_ssh(launch: LintLaunch) -> bool:
    """DeepSpeed's own launchers (pdsh and the like), which are run once and reach the other nodes themselves."""
    if not _is_deepspeed(launch):
        return False
    kind = launch.option("deepspeed-multinode-launcher")
    return kind is None or launch.text("deepspeed-multinode-launcher") not in ("standard", "nossh", None)


def _complete(launch: LintLaunch) -> bool:
    """Nothing outside the text may add options."""
    return launch.option("config-file") is None and not look.may_hide_options(launch)


@rule(
    "C01",
    title="--num_processes is the number of all processes, N machines times G GPUs",
    source="accelerate 1.15, utils/launch.py: per node = num_processes // num_machines; accelerate#2521",
    leads_to=("launcher-world-mismatch",),
    bad=(
        _GOOD.format(0).replace("--num_processes 8", "--num_processes 1"),
        Example(_GOOD.format(0).replace("--num_processes 8", "--num_processes 4"), "nodes=2,gpus_per_node=4"),
        _GOOD.format(1).replace("--num_processes 8", "--num_processes 7"),
    ),
    good=(_BOTH, Example(_GOOD.format(0), "nodes=2,gpus_per_node=4"), _ONE_NODE),
)
def accelerate_total_processes(job: LintJob) -> Iterator[LintFinding]:
    """accelerate divides --num_processes by --num_machines, unlike torchrun's --nproc_per_node. With the GPUs of one
    node, half of the processes start, or none."""
    for launch, machines in _several(job):
        option = launch.option("num-processes")
        total = whole(option)
        if option is None or option.value is None or total is None:
            continue
        gpus = processes.gpus(job, launch)
        per_node = total // machines
        if total < machines:
            problem = f"{per_node} processes on each of {machines} machines: the start ends with an error"
        elif total % machines:
            problem = f"{per_node} on each machine: {total % machines} of the {total} processes are never started"
        elif gpus is not None and per_node > gpus:
            problem = f"{per_node} processes on machines with {counted(gpus, 'GPU')}: invalid device ordinal"
        elif gpus is not None and total == gpus:
            problem = f"only {per_node} of the {gpus} GPUs of each machine train"
        else:
            continue
        wanted = machines * gpus if gpus else None
        if wanted is None:
            wanted = (total // machines + 1) * machines if total > machines else None
        yield LintFinding(
            span=option.span,
            summary=f"{option.written} {total} is the total of {machines} machines, not the GPUs of one",
            happens=f"accelerate divides: {problem}.",
            fix=f"Write machines times GPUs per machine: {option.written} {wanted or f'{machines} x G'}.",
            edits=(Edit(option.value.span, str(wanted)),) if wanted is not None and gpus else (),
        )


@rule(
    "C02",
    title="With several machines, each has --machine_rank",
    source="measured with accelerate 1.15: int(None)",
    bad=(
        _GOOD.format(0).replace("--machine_rank 0 ", ""),
        "#@ every node\n" + _GOOD.format(0).replace("--machine_rank 0 ", "").replace("static", "c10d"),
        HEADER
        + "srun "
        + _GOOD.format(0).replace("--machine_rank 0 ", "").replace("machines 2", "machines $SLURM_NNODES"),
        _GOOD.format(0).replace("--machine_rank 0 ", "").replace("machines 2", "machines $NNODES"),
    ),
    good=(
        _BOTH,
        _ONE_NODE,
        _PDSH,
        _GOOD.format("$SLURM_NODEID"),
        HEADER.replace("nodes=2", "nodes=1") + "srun accelerate launch --multi_gpu --num_machines $SLURM_NNODES"
        " --num_processes 4 train.py\n",
    ),
)
def accelerate_no_machine_rank(job: LintJob) -> Iterator[LintFinding]:
    """accelerate turns --machine_rank into a number whatever the rendezvous backend is. A default configuration of
    `accelerate config` may hold one, but the same for every machine that it was copied to."""
    several: list[tuple[LintLaunch, int | None]] = [*_several(job), *_by_variable(job)]
    for launch, machines in several:
        if launch.option("machine-rank") is not None or not _complete(launch) or _by_ssh(launch):
            continue
        option = launch.option("num-machines")
        count = option.value.shown if option is not None and option.value is not None else machines
        last = machines - 1 if machines else "machines - 1"
        node = look.section_node(job, launch)
        in_task = bool(look.sruns(launch)) and look.in_a_task_shell(launch)
        rank = str(node) if node is not None else "$SLURM_NODEID" if in_task else ""
        yield LintFinding(
            span=look.head_span(launch),
            severity=None if machines and look.is_static(launch) else "warning",
            summary=f"--num_machines {count} without --machine_rank",
            happens="accelerate ends at once"
            + ("" if machines else ", where there are several machines")
            + ": TypeError, int() argument must be ... not 'NoneType'.",
            fix=f"Add --machine_rank {rank or 'K'} (0 to {last}, another on every machine; 0 is the head).",
            edits=insert_options(launch, f"--machine_rank {rank}") if rank else (),
        )


@rule(
    "C03",
    title="One GPU per machine and several machines need --multi_gpu",
    needs="facts",
    source="measured with accelerate 1.15: the simple launcher sets no RANK and no WORLD_SIZE",
    bad=(
        Example(
            _GOOD.format(0).replace("--multi_gpu ", "").replace("processes 8", "processes 2"), "nodes=2,gpus_per_node=1"
        ),
        "CUDA_VISIBLE_DEVICES=0 " + _GOOD.format(1).replace("--multi_gpu ", "").replace("processes 8", "processes 2"),
    ),
    good=(
        _BOTH,
        Example(_GOOD.format(0).replace("processes 8", "processes 2"), "nodes=2,gpus_per_node=1"),
        Example(_GOOD.format(0).replace("--multi_gpu ", ""), "nodes=2,gpus_per_node=4"),
    ),
)
def accelerate_separate_trainings(job: LintJob) -> Iterator[LintFinding]:
    """accelerate switches its launcher of several processes on when it sees several GPUs. With one GPU a machine it
    takes the simple launcher, which sets neither RANK nor WORLD_SIZE: every machine trains alone and says nothing."""
    for launch, machines in _several(job):
        if launch.option(*_OTHER_KINDS, *_DEEPSPEED) is not None or not _complete(launch):
            continue
        gpus = processes.gpus(job, launch)
        if gpus != 1 and not (gpus is None and whole(launch.option("num-processes")) == machines):
            continue
        yield LintFinding(
            span=look.head_span(launch),
            severity=None if gpus == 1 else "warning",
            summary=f"{machines} machines with one process each, and no --multi_gpu",
            happens="Where a machine shows one GPU, accelerate takes its simple launcher: "
            f"{machines} separate trainings of world size 1, without any message.",
            fix="Add --multi_gpu.",
            edits=insert_options(launch, "--multi_gpu"),
        )


@rule(
    "C04",
    title="DeepSpeed on several machines has a hostfile, or the standard launcher on each",
    source="accelerate 1.15, utils/launch.py: deepspeed_multinode_launcher is pdsh unless it is named",
    leads_to=("master-port-in-use",),
    bad=(
        _GOOD.format(0).replace("--multi_gpu", "--use_deepspeed"),
        "#@ every node\n" + _GOOD.format("$NODE_RANK").replace("--multi_gpu", "--use_deepspeed --zero_stage 2"),
    ),
    good=("#@ node 0\n" + _STANDARD.format(0) + "#@ node 1\n" + _STANDARD.format(1), _PDSH, _BOTH),
)
def accelerate_deepspeed_pdsh(job: LintJob) -> Iterator[LintFinding]:
    """With DeepSpeed and several machines, accelerate starts DeepSpeed's pdsh launcher, which is run once, on the head,
    and reaches the others by ssh from a hostfile. Without a hostfile it stays on its own node."""
    for launch, machines in _several(job):
        if not _by_ssh(launch) or not _complete(launch) or launch.option("deepspeed-hostfile") is not None:
            continue
        kind = launch.option("deepspeed-multinode-launcher")
        standard = "--deepspeed_multinode_launcher standard"
        edits = insert_options(launch, standard)
        if kind is not None:
            edits = (Edit(kind.value.span, "standard"),) if kind.value is not None else ()
        yield LintFinding(
            span=kind.span if kind is not None else look.head_span(launch),
            summary=f"DeepSpeed on {machines} machines by pdsh, and no --deepspeed_hostfile",
            happens="DeepSpeed finds no hosts and stays on each node by itself: node 0 trains alone, and where the line"
            " runs on every node the others end with EADDRINUSE or train alone too.",
            fix=f"Run the line on every node with {standard}, or once on the head with --deepspeed_hostfile FILE.",
            edits=edits,
        )


@rule(
    "C05",
    title="All machines of an accelerate launch have the same number of GPUs",
    needs="facts",
    source="accelerate 1.15, utils/launch.py: nproc_per_node = num_processes // num_machines",
    bad=(
        "#@ node 0\nCUDA_VISIBLE_DEVICES=0,1,2,3,4,5 " + _GOOD.format(0) + "#@ node 1\nCUDA_VISIBLE_DEVICES=0,1 "
        + _GOOD.format(1),
        "#@ node 0\nCUDA_VISIBLE_DEVICES=0,1,2 " + _GOOD.format(0) + "#@ node 1\nCUDA_VISIBLE_DEVICES=0,1,2,3,4 "
        + _GOOD.format(1),
    ),
    good=(
        _BOTH,
        "#@ node 0\nCUDA_VISIBLE_DEVICES=0,1,2,3 " + _GOOD.format(0) + "#@ node 1\nCUDA_VISIBLE_DEVICES=4,5,6,7 "
        + _GOOD.format(1),
    ),
)  # fmt: skip
def accelerate_unequal_gpus(job: LintJob) -> Iterator[LintFinding]:
    """accelerate shares its total out evenly. A machine with fewer GPUs gets more processes than it can hold, one with
    more GPUs leaves some idle; torchrun takes another --nproc-per-node on each node."""
    several = [launch for launch, _ in _several(job) if look.section_node(job, launch) is not None]
    counts = {look.label(job, launch): gpus for launch in several if (gpus := processes.gpus(job, launch)) is not None}
    if len(set(counts.values())) < 2:
        return
    names = ", ".join(f"{count} on {name}" for name, count in counts.items())
    yield LintFinding(
        span=look.head_span(several[0]),
        summary=f"the machines show different numbers of GPUs: {names}; accelerate starts as many processes on each",
        happens="The machine with fewer GPUs gets too many processes: invalid device ordinal, and the others wait.",
        fix="Show the same number on each (CUDA_VISIBLE_DEVICES), or start it by torchrun with its own --nproc-per-node"
        " on every node and the static rendezvous.",
    )


@rule(
    "C06",
    title="pdsh starts DeepSpeed with the address that was asked for",
    severity="warning",
    needs="facts",
    source="accelerate#953, #2468; PR #2495 (March 2024) hands --master_addr over",
    leads_to=("master-unreachable",),
    bad=(
        Example(_PDSH, "accelerate=0.18"),
        Example(_PDSH.replace("--num_processes 16", "--num_processes 8"), "accelerate=0.15"),
    ),
    good=(Example(_PDSH, "accelerate=1.15"), _BOTH),
)  # fmt: skip
def accelerate_pdsh_ip(job: LintJob) -> Iterator[LintFinding]:
    """Releases of accelerate before 0.29 do not hand --main_process_ip over to DeepSpeed's pdsh launcher, which then
    takes the first word of `hostname -I` on the first host: on a head with several networks that may be docker0's
    address."""
    version = job.facts.version("accelerate")
    if version is None or version >= (0, 29):  # the first release after PR #2495
        return
    for launch, _ in _several(job):
        option = launch.option("main-process-ip")
        if option is None or not _by_ssh(launch) or launch.option("deepspeed-hostfile") is None:
            continue
        yield LintFinding(
            span=option.span,
            summary=f"accelerate {job.facts.versions['accelerate']} does not hand {option.written} over to pdsh",
            happens="DeepSpeed then takes the first address of `hostname -I` on the first host: where that is another"
            " network's, the other nodes wait for the head until their time-out.",
            fix="Upgrade accelerate to 0.29 or later, or run --deepspeed_multinode_launcher standard on every node.",
        )


@rule(
    "C07",
    title="Several machines have --main_process_ip",
    source="measured with accelerate 1.15: the endpoint becomes None:29500",
    leads_to=("master-addr-loopback",),
    bad=(
        _GOOD.format(0).replace("--main_process_ip 10.20.0.11 ", ""),
        _GOOD.format(1).replace("--main_process_ip 10.20.0.11 --main_process_port 61234 ", ""),
    ),
    good=(_BOTH, _ONE_NODE, _PDSH),
)
def accelerate_no_main_ip(job: LintJob) -> Iterator[LintFinding]:
    """Without --main_process_ip there is no head to meet at: accelerate writes the text None into the endpoint, or goes
    back to this machine."""
    for launch, machines in _several(job):
        if launch.option("main-process-ip") is not None or not _complete(launch) or _by_ssh(launch):
            continue
        address = launch.invocation.settings.get("MASTER_ADDR")
        edits: tuple[Edit, ...] = ()
        if address is not None and address.word.text and address.exported:
            edits = insert_options(launch, f"--main_process_ip {address.word.text}")
        yield LintFinding(
            span=look.head_span(launch),
            summary=f"--num_machines {machines} without --main_process_ip",
            happens="The rendezvous endpoint is None:29500: the name does not resolve, or every node waits for itself.",
            fix="Add --main_process_ip with the head's address, the same on every machine"
            + (f": --main_process_ip {address.word.text}." if edits and address is not None else "."),
            edits=edits,
        )


@rule(
    "C11",
    title="Several processes on the CPU need accelerate's launcher for several",
    source="accelerate 1.15, commands/launch.py: with --cpu the simple launcher runs the script once; utils/launch.py: "
    "but for --mpirun_hostfile",
    bad=(
        "accelerate launch --cpu --num_processes 2 train.py\n",
        "accelerate launch --num_processes=4 --cpu --mixed_precision no train.py\n",
    ),
    good=(
        "accelerate launch --cpu --num_processes 1 train.py\n",
        "accelerate launch --cpu train.py\n",
        "ACCELERATE_USE_CPU=true accelerate launch --multi_gpu --num_processes 2 train.py\n",
        "accelerate launch --cpu --num_processes 2 --mpirun_hostfile hosts train.py\n",
        "mpirun -np 2 accelerate launch --cpu --num_processes 2 train.py\n",
    ),
)
def accelerate_cpu_runs_once(job: LintJob) -> Iterator[LintFinding]:
    """With --cpu, accelerate runs the script once, as `python` would, whatever --num_processes says: no RANK and no
    WORLD_SIZE are set. Only an MPI around it, or --mpirun_hostfile, makes several."""
    for launch in job.launches:
        option = launch.option("cpu") if launch.launcher == "accelerate" else None
        count = whole(launch.option("num-processes"))
        if option is None or count is None or count < 2:
            continue
        if launch.option("mpirun-hostfile", "config-file") is not None or allocation.under_mpi(launch):
            continue
        yield LintFinding(
            span=option.span,
            summary=f"--cpu runs the script once, and --num_processes {count} is not looked at",
            happens="One process trains alone; an init_process_group of its own ends with 'environment variable RANK "
            "expected, but not set'.",
            fix="Take --multi_gpu in the place of --cpu (it starts a process a rank, on the CPU too), and set "
            "ACCELERATE_USE_CPU=true in front of the command.",
        )
