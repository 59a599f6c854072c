"""Rules of what is asked of SLURM against what is started: S07, S09, S10, S11, S12, S18."""

import re
from collections.abc import Iterator

from gpudoctor.knowledge.wording import counted
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import allocation, lightning, look, processes
from gpudoctor.lint.model import LintJob, LintLaunch, Option, SbatchOption
from gpudoctor.lint.programs import program_of
from gpudoctor.lint.rule import Edit, Example, LintFinding, rule
from gpudoctor.lint.rules.slurm_examples import ADDRESS, C10D, HEADER, LIGHTNING, PER_GPU, PLAIN, RANKED

_BY_LOCAL_RANK = lazy_re(
    r"set_device\(\s*[^)]*local_?rank|cuda:\{[^}]*local_?rank|device_ids\s*=\s*\[\s*[^\]]*local_?rank"
    r"|device\(\s*[\"']cuda[\"']\s*,\s*[^)]*local_?rank|set_device\(\s*[^)]*SLURM_LOCALID",
    re.IGNORECASE,
)
_TASK_GPU = PER_GPU.replace("--gres=gpu:4", "--gpus-per-task=1")


@rule(
    "S07",
    title="Tasks that choose their GPU by local rank see all GPUs of the node",
    source="measured with Slurm 22.05; many threads",
    bad=(
        _TASK_GPU + LIGHTNING.splitlines()[-1] + "\n",
        PLAIN.replace("--gres=gpu:4", "--gpus-per-task=1"),
        PLAIN.replace("#SBATCH --gres=gpu:4\n", "#SBATCH --gpus=8\n#SBATCH --gpus-per-task=1\n"),
    ),
    good=(
        LIGHTNING,
        PLAIN,
        PLAIN.replace("--gres=gpu:4", "--gpus-per-task=1").replace("LOCAL_RANK=$SLURM_LOCALID", "LOCAL_RANK=0"),
        HEADER.replace("--gres=gpu:4", "--gpus-per-task=4") + ADDRESS + "srun --cpus-per-task=32 " + C10D + "\n",
    ),
)
def one_gpu_per_task_and_local_rank(job: LintJob) -> Iterator[LintFinding]:
    """With --gpus-per-task=1 (or --ntasks-per-gpu) each task sees one GPU, which is cuda:0 for it. A program that takes
    cuda:LOCAL_RANK, or Lightning with several devices, finds one GPU where it looks for the second."""
    for launch in job.launches:
        seen, here = allocation.sees_own_gpus_only(job, launch), allocation.tasks_per_node(job, launch)
        option = allocation.gives(job, launch, "gpus-per-task") or allocation.gives(job, launch, "ntasks-per-gpu")
        if launch.launcher != "srun" or option is None or seen is None or here is None or here < 2:
            continue
        asked = lightning.devices(job, launch) if lightning.is_lightning(job, launch) else None
        if not (isinstance(asked, int) and asked > seen) and not _uses_local_rank(job, launch):
            continue
        total = seen * here
        yield LintFinding(
            span=option.span,
            summary=f"{allocation.written(option)} shows each of {here} tasks a node {counted(seen, 'GPU')}, and the"
            f" program looks for {counted(total, 'GPU')}",
            happens="Local rank 1 and above fail: CUDA error: invalid device ordinal; Lightning: you requested GPUs,"
            " but your machine only has [0].",
            fix=f"Ask for the GPUs by node, --gres=gpu:{total}: then every task sees them all.",
            edits=_by_node(job, launch, option, total),
        )


def _uses_local_rank(job: LintJob, launch: LintLaunch) -> bool:
    setting = launch.invocation.settings.get("LOCAL_RANK")
    given = setting is not None and any(
        origin.name == "SLURM_LOCALID" for origin in look.origins(setting.word, launch.invocation)
    )
    own_choice = launch.invocation.settings.get("CUDA_VISIBLE_DEVICES") is not None
    return (given and not own_choice) or any(
        section.kind == "file" and (_BY_LOCAL_RANK.search(section.text) or _by_localid(section.text))
        for section in job.sections
    )


def _by_localid(text: str) -> bool:
    """`gpu = int(os.environ["SLURM_LOCALID"])`, and set_device(gpu)."""
    named = re.search(r"(\w+)\s*=\s*int\(\s*os\.(?:environ|getenv)\W{1,6}(?:get\W{1,3})?SLURM_LOCALID", text)
    return named is not None and re.search(rf"(?:set_device|\.cuda|\.to)\(\s*{named[1]}\b", text) is not None


def _by_node(job: LintJob, launch: LintLaunch, option: Option | SbatchOption, total: int) -> tuple[Edit, ...]:
    if any(allocation.gives(job, launch, name) for name in ("gres", "gpus-per-node", "gpus")):
        return ()
    if not isinstance(option, SbatchOption) or option.name != "gpus-per-task":
        return ()
    return (Edit(option.span, f"--gres=gpu:{total}"),) if option.span.exact else ()


@rule(
    "S09",
    title="--ntasks is nodes times --ntasks-per-node",
    source="measured with Slurm 22.05; many threads",
    leads_to=("launcher-world-mismatch",),
    bad=(
        PER_GPU + "#SBATCH --ntasks=4\nsrun --cpus-per-task=8 python train.py\n",
        "#!/bin/bash\n#SBATCH -N 4\n#SBATCH -n 4\n#SBATCH --ntasks-per-node=8\nsrun python train.py\n",
    ),
    good=(PLAIN, PER_GPU + "#SBATCH --ntasks=8\nsrun --cpus-per-task=8 python train.py\n"),
)
def ntasks_is_not_the_product(job: LintJob) -> Iterator[LintFinding]:
    """Where both are given, --ntasks wins, and --ntasks-per-node is only a limit: the number of ranks is another one
    than nodes times tasks per node."""
    total, per_node = allocation.in_force(job, "ntasks"), allocation.in_force(job, "ntasks-per-node")
    nodes = look.batch_nodes(job)
    if total is None or per_node is None or nodes is None or not job.launches:
        return
    tasks, each = allocation.whole(total.value), allocation.whole(per_node.value)
    if tasks is None or each is None or tasks == nodes * each:
        return
    if all(look.sruns(launch) and look.sruns(launch)[-1].option("ntasks") for launch in job.launches):
        return  # every step says its own number
    launchers = tasks == nodes and all(look.traits(launch).ranks_option for launch in job.launches)
    yield LintFinding(
        span=total.span,
        severity="info" if launchers else None,  # one task for each node is what a launcher of ranks needs
        summary=f"--ntasks={tasks} is not --nodes={nodes} times --ntasks-per-node={each}, which are {nodes * each}",
        happens=f"--ntasks wins: srun starts {counted(tasks, 'task')} on {counted(nodes, 'node')}, and ranks are"
        " missing or unevenly placed."
        if tasks < nodes * each
        else f"SLURM refuses the job, or starts {tasks} tasks on more nodes than {nodes}.",
        fix=f"Drop --ntasks, or write --ntasks={nodes * each}.",
        edits=allocation.set_value(job, total, str(nodes * each)),
    )


@rule(
    "S10",
    title="A node has a GPU for each of its ranks",
    source="deepops#1102; measured with Slurm 22.05",
    leads_to=("duplicate-gpu",),
    bad=(
        PLAIN.replace("gpu:4", "gpu:2"),
        "salloc -N1 --gres=gpu:1 srun torchrun --standalone --nproc-per-node=4 train.py\n",
        HEADER.replace("gpu:4", "gpu:a100:2") + ADDRESS + "srun --cpus-per-task=32 " + C10D + "\n",
        LIGHTNING.replace("--gres=gpu:4", "--gpus-per-node=1"),
        HEADER.replace("per-node=1", "per-node=8") + "srun --cpus-per-task=4 python train.py\n",
    ),
    good=(PLAIN, LIGHTNING, PLAIN.replace("--gres=gpu:4", "--gpus=8"),
          HEADER + "srun --ntasks=2 --ntasks-per-node=1 python prepare_data.py\n" + RANKED.splitlines()[-1] + "\n"),
)  # fmt: skip
def fewer_gpus_than_ranks(job: LintJob) -> Iterator[LintFinding]:
    """NCCL refuses two ranks on one GPU, and a local rank beyond the last GPU finds none."""
    for launch in job.launches:
        gpus = allocation.gpus_per_node(job, launch)
        if gpus is None or processes.on_cpu(launch):
            continue
        if launch.launcher == "srun" and allocation.gives(job, launch, "gpus-per-task") is not None:
            continue  # S07
        ranks = _ranks_here(job, launch)
        tasks = allocation.tasks_per_node(job, launch) if ranks is None and launch.launcher == "srun" else None
        if tasks is not None and tasks > gpus > 0:
            yield _more_tasks(job, launch, tasks, gpus)
        if ranks is None or ranks <= gpus or gpus == 0:
            continue
        option = _gpu_option(job, launch)
        asked = allocation.written(option) if option is not None else "salloc"
        yield LintFinding(
            span=option.span if option is not None else launch.invocation.span,
            summary=f"{asked} gives a node {counted(gpus, 'GPU')}, and {ranks} ranks start there",
            happens="CUDA error: invalid device ordinal for the local ranks beyond, or NCCL's 'Duplicate GPU detected'"
            " where they share one.",
            fix=f"Ask for {counted(ranks, 'GPU')} a node, or start {counted(gpus, 'rank')} there.",
        )


def _gpu_option(job: LintJob, launch: LintLaunch) -> Option | SbatchOption | None:
    """What `allocation.gpus_per_node` has its number from; None where it is of a salloc around."""
    names = allocation.gpu_options(launch)
    return next((given for name in names if (given := allocation.gives(job, launch, name))), None)


def _more_tasks(job: LintJob, launch: LintLaunch, tasks: int, gpus: int) -> LintFinding:
    """Tasks of which the text does not tell whether each takes a GPU: some may work on the CPU alone."""
    option = _gpu_option(job, launch)
    asked = allocation.written(option) if option is not None else "salloc"
    return LintFinding(
        span=option.span if option is not None else launch.invocation.span,
        severity="warning",
        summary=f"{asked} gives a node {counted(gpus, 'GPU')}; srun starts {tasks} tasks there",
        happens="Where each task takes a GPU, the local ranks beyond fail with: CUDA error: invalid device ordinal, or"
        " share one, which NCCL refuses as 'Duplicate GPU detected'.",
        fix=f"Ask for {counted(tasks, 'GPU')} a node, or start {counted(gpus, 'task')} there.",
    )


def _ranks_here(job: LintJob, launch: LintLaunch) -> int | None:
    """Ranks on a node; None where they need not each have a GPU of their own."""
    if launch.launcher == "srun":
        here = allocation.tasks_per_node(job, launch)
        ranked = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR"} & launch.invocation.settings.keys()
        if here is not None and (lightning.is_lightning(job, launch) or ranked):
            return here
        return None
    if not allocation.srun_of(launch) and not job.is_batch:
        return None
    count = processes.started(job, launch)
    return count.number if isinstance(count.number, int) else None


@rule(
    "S11",
    title="Tasks on several nodes are asked for by node",
    severity="warning",
    source="measured with Slurm 22.05: 8 tasks on 2 nodes as 7 and 1; Lightning's SLURMEnvironment",
    bad=(
        "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks=8\n#SBATCH --gres=gpu:4\nsrun python train.py\n",
        Example("#!/bin/bash\n#SBATCH -n 4\n#SBATCH --gres=gpu:4\nsrun python train.py --devices 4 --strategy ddp\n",
                "lightning=2.2"),
    ),
    good=(PLAIN, HEADER.replace("--ntasks-per-node=1", "--ntasks=2") + ADDRESS + "srun " + C10D + "\n"),
)  # fmt: skip
def tasks_may_split_unevenly(job: LintJob) -> Iterator[LintFinding]:
    """--nodes and --ntasks say how many tasks there are, not where: SLURM fills the first node's CPUs before it goes to
    the next. Lightning 1.8 and later refuse --ntasks without --ntasks-per-node."""
    seen: set[int] = set()
    for launch in job.launches:
        option, count = allocation.gives(job, launch, "ntasks"), allocation.nodes(job, launch)
        if not look.sruns(launch) or option is None or option.span.start in seen:
            continue
        per_node = [allocation.gives(job, launch, f"ntasks-per-{each}") for each in ("node", "gpu", "socket")]
        tasks = allocation.whole(allocation.asked(job, launch, "ntasks"))
        if any(per_node) or tasks is None or tasks < 2:
            continue
        refused = launch.launcher == "srun" and lightning.is_lightning(job, launch) and lightning.since(job, 1, 8)
        if not refused and (count is None or count < 2 or tasks <= count):
            continue
        seen.add(option.span.start)
        even = tasks // count if count and tasks % count == 0 else None
        yield LintFinding(
            span=option.span,
            severity="error" if refused else None,
            summary=f"{allocation.written(option)} on {counted(count or 1, 'node')} without --ntasks-per-node",
            happens=f"{lightning.named(job)} ends with a RuntimeError: it wants --ntasks-per-node."
            if refused
            else "SLURM may place the tasks unevenly (8 tasks on 2 nodes as 7 and 1): more ranks than GPUs on one"
            " node.",
            fix=f"Write --ntasks-per-node={even} in its place." if even else "Write --ntasks-per-node in its place.",
            edits=_per_node(job, option, even),
        )


def _per_node(job: LintJob, option: Option | SbatchOption, even: int | None) -> tuple[Edit, ...]:
    piece = job.text[option.span.start : option.span.end]
    if even is None or not option.span.exact or not re.fullmatch(r"(?:--ntasks(?:=|\s+)|-n\s*)\d+", piece):
        return ()
    return (Edit(option.span, f"--ntasks-per-node={even}"),)


@rule(
    "S12",
    title="No GPU binding hides GPUs that the launcher counts on",
    severity="warning",
    source="pytorch-lightning#13605; srun(1)",
    bad=(
        LIGHTNING.replace("srun ", "srun --gpu-bind=closest ").replace("--devices 4", "--devices -1"),
        HEADER + "#SBATCH --gpu-bind=single:1\n" + ADDRESS + "srun --cpus-per-task=32 " + C10D + "\n",
        PLAIN.replace("srun ", "srun --gpu-bind=closest "),
    ),
    good=(LIGHTNING, LIGHTNING.replace("srun ", "srun --gpu-bind=none ")),
)
def gpu_bind_hides_gpus(job: LintJob) -> Iterator[LintFinding]:
    """--gpu-bind=closest and single show each task only a part of the node's GPUs, numbered from 0. A launcher that
    counts the GPUs, or takes cuda:LOCAL_RANK, finds fewer than there are ranks."""
    for launch in job.launches:
        if not look.sruns(launch):
            continue
        option = allocation.binds_gpus(job, launch)
        if option is None:
            continue
        trainer = launch.launcher == "srun" and lightning.is_lightning(job, launch)
        automatic = trainer and lightning.devices(job, launch) == "auto"
        here = allocation.tasks_per_node(job, launch)
        if here == 1 and launch.launcher == "srun" and not trainer:
            continue
        yield LintFinding(
            span=option.span,
            # --accel-bind says where tasks stand to GPUs, and shows them all where the site's plugin takes CPUs alone
            severity="error"
            if automatic and here != 1
            else "info"
            if option.name == "accel-bind" or _may_take_its_own(job, launch, trainer)
            else None,
            summary=f"{allocation.written(option)} shows each task only a part of the node's GPUs; all were wanted",
            happens=_bound(job, here) if automatic else "Ranks beyond the GPUs that their task sees fail with: invalid"
            " device ordinal.",
            fix=f"Drop {allocation.written(option)}; each rank then takes its GPU by its local rank.",
            edits=allocation.drop(job, option),
        )  # fmt: skip


def _may_take_its_own(job: LintJob, launch: LintLaunch, trainer: bool) -> bool:
    """A plain program of which nobody knows whether it takes cuda:0, the one that its task sees."""
    return launch.launcher == "srun" and not trainer and program_of(job, launch) is None


def _bound(job: LintJob, here: int | None) -> str:
    tasks = f"{here} tasks" if here else "the tasks"
    if lightning.since(job, 2, 1):
        return (
            f"{lightning.named(job)} counts the GPUs that it sees as devices, compares them with {tasks}: ValueError."
        )
    return (
        f"Lightning counts the GPUs that it sees as devices. They are not {tasks} a node: before 2.1 it does not take"
        " SLURM's ranks and starts processes of its own in every task (several worlds that know nothing of each other);"
        " later ones end with a ValueError."
    )


@rule(
    "S18",
    title="The training counts as many nodes as SLURM gives",
    severity="warning",
    source="measured with Lightning 2.6.6 under Slurm 22.05",
    leads_to=("launcher-world-mismatch",),
    bad=(
        RANKED.replace("--nnodes=2", "--nnodes=4"),
        LIGHTNING.replace("--num_nodes 2", "--num_nodes 3"),
        HEADER + "torchrun --standalone --nproc-per-node=4 train.py\n",
    ),
    good=(RANKED, LIGHTNING, RANKED.replace("--nnodes=2", "--nnodes=$SLURM_NNODES")),
)
def nodes_not_as_asked(job: LintJob) -> Iterator[LintFinding]:
    """The number of nodes stands twice: in the header and in the start. Where they differ, ranks wait for nodes that
    are not there, or nodes stay idle."""
    for launch in job.launches:
        count = allocation.nodes(job, launch)
        if count is None or look.node_of(job, launch) is not None or allocation.gives(job, launch, "nodelist"):
            continue
        if any(outer.program in ("ssh", "pdsh", "clush") for outer in launch.invocation.within):
            continue
        nodes = look.nnodes(launch)
        if launch.launcher in look.TORCHRUN and look.value(launch, "nnodes") is None and look.sruns(launch):
            nodes = None
        elif look.standalone(launch):
            nodes = (1, 1)
        argument = lightning.num_nodes(job, launch) if launch.launcher == "srun" else None
        if argument is not None and argument[0] != count:
            fails = (
                f"{lightning.named(job)} ends with a ValueError" if lightning.since(job, 2, 1) else "The start waits"
            )
            yield LintFinding(
                span=argument[1].span,
                severity="error" if lightning.version(job) is not None else None,
                summary=f"{argument[1].written}, and SLURM gives {counted(count, 'node')}",
                happens=f"{fails}: the world size is not the number of tasks.",
                fix=f"Write num_nodes {count}, or ask SLURM for {counted(argument[0], 'node')}.",
            )
        elif nodes is not None and nodes[0] == nodes[1] == allocation.tasks(job, launch):
            continue  # a launcher for each task, and each is one of these nodes
        elif nodes is not None and nodes[0] == nodes[1] != count and not look.traits(launch).bare:
            shown = look.value(launch, "nnodes")
            yield LintFinding(
                span=shown.span if shown is not None else launch.invocation.span,
                summary=f"The start is for {counted(nodes[0], 'node')}, and SLURM gives {counted(count, 'node')}",
                happens="The rendezvous waits for nodes that never come, until it times out."
                if nodes[0] > count
                else f"{count - nodes[0]} of {count} nodes stay idle, or train by themselves.",
                fix="Write --nnodes=$SLURM_NNODES, which follows the header.",
                edits=(Edit(shown.span, "$SLURM_NNODES"),)
                if shown is not None and look.sruns(launch) and shown.span.exact and not shown.word.expansions
                else (),
            )
