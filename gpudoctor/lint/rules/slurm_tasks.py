"""Rules of tasks under SLURM: how many srun starts, and what each of them starts. S01, S04, S05, S08."""

import re
from collections.abc import Iterator, Sequence

from gpudoctor.knowledge.wording import counted
from gpudoctor.lint import allocation, lightning, look, processes
from gpudoctor.lint.model import LintJob, LintLaunch, Span
from gpudoctor.lint.rule import Edit, Example, LintFinding, rule
from gpudoctor.lint.rules.slurm_examples import ADDRESS, C10D, HEADER, LIGHTNING, PER_GPU, PLAIN, RANKED, TORCHRUN
from gpudoctor.lint.task_shell import one_task_per_node, under_srun

_REACHES_NODES = frozenset({
    "ssh", "pdsh", "clush", "parallel-ssh", "pssh", "parallel", "srun", "mpirun", "mpiexec", "orterun", "mpiexec.hydra",
    "ray", "dask", "horovodrun", "submitit", "deepspeed", "jsrun", "aprun", "prun", "psrun", "ibrun", "deepy.py",
})  # fmt: skip
"""Programs that start something on the other nodes of an allocation."""


@rule(
    "S01",
    title="srun starts one launcher a node, or one task a rank",
    source="measured with Slurm 22.05; many threads",
    leads_to=("duplicate-gpu", "master-port-in-use"),
    bad=(
        PER_GPU + ADDRESS + "srun --cpus-per-task=8 " + C10D + "\n",
        PER_GPU + "srun --cpus-per-task=8 accelerate launch --multi_gpu --num_processes 4 train.py\n",
        HEADER + ADDRESS + "srun --ntasks-per-node=4 " + C10D + "\n",
        "#!/bin/bash\n#SBATCH -N 1\n#SBATCH -n 8\n#SBATCH --gres=gpu:8\n"
        "srun torchrun --standalone --nproc_per_node=8 train.py\n",
        "#!/bin/bash\n#SBATCH -n 32\n#SBATCH --gres=gpu:4\nsrun torchrun --nproc_per_node=4 train.py\n",
        HEADER + ADDRESS + "srun --ntasks-per-node=4 " + C10D.replace("per-node=4", "per-node=1") + "\n",
    ),
    good=(
        RANKED,
        HEADER + ADDRESS + "srun --ntasks-per-node=4 "
        + C10D.replace("per-node=4", "per-node=1").replace("nnodes=2", "nnodes=8") + "\n",
        HEADER + ADDRESS + "srun --cpus-per-task=32 " + C10D + "\n",
        PLAIN,
        PER_GPU + ADDRESS + "srun --ntasks=2 --ntasks-per-node=1 " + C10D + "\n",
    ),
)  # fmt: skip
def launcher_started_per_task(job: LintJob) -> Iterator[LintFinding]:
    """torchrun, accelerate and deepspeed start the processes of a node themselves. Where srun starts several tasks on
    each node, there are as many launchers, and every GPU gets several processes."""
    for launch in job.launches:
        if not (look.traits(launch).ranks_option or look.traits(launch).a_node) or allocation.srun_of(launch) is None:
            continue
        here = allocation.tasks_per_node(job, launch)
        if here is None:
            yield from _tasks_anywhere(job, launch)
        if here is None or here < 2:
            continue
        count = processes.started(job, launch)
        per_node = count.number if isinstance(count.number, int) else None
        several = (
            count.number == "gpus" or (per_node or 0) > 1 or (count.word is not None and _of_gpus(count.word.shown))
        )
        if not several or (per_node is None and (processes.gpus(job, launch) or 2) < 2):
            yield from _more_launchers(job, launch, here)
            continue
        made = f"{per_node * here} processes on each node" if per_node else "as many processes for each GPU"
        yield LintFinding(
            span=_tasks_span(job, launch) or launch.invocation.span,
            summary=f"srun starts {here} tasks a node, and each starts {launch.entry or launch.launcher} with"
            f" {count.written} {count.word.shown if count.word else 1}: one launcher a node was wanted",
            happens=f"{made.capitalize()}: EADDRINUSE at the rendezvous port, NCCL's 'Duplicate GPU detected', or GPUs"
            " shared and out of memory.",
            fix="Start one task a node (--ntasks-per-node=1), or drop the launcher and start one task a GPU.",
            edits=one_task_per_node(job, launch),
        )


def _tasks_anywhere(job: LintJob, launch: LintLaunch) -> Iterator[LintFinding]:
    """Tasks without a number of nodes: SLURM fills a node before it takes the next one, and a torchrun that is told of
    no other node is alone wherever it is."""
    total, nodes = allocation.tasks(job, launch), allocation.gives(job, launch, "nodes")
    own = launch.option("nnodes") is not None or launch.option("rdzv-endpoint", "master-addr") is not None
    per_node = processes.started(job, launch).number
    several = per_node == "gpus" or (isinstance(per_node, int) and per_node > 1)
    if launch.launcher not in look.TORCHRUN or own or nodes is not None or not several or (total or 0) < 2:
        return
    yield LintFinding(
        span=_tasks_span(job, launch) or launch.invocation.span,
        summary=f"srun starts {total} tasks, and each is a {launch.entry or launch.launcher} that is told of no other",
        happens=f"{total} trainings of their own on the same GPUs: EADDRINUSE at the port, or out of memory.",
        fix="Write --ntasks=1 (--cpus-per-task for its CPUs), or --ntasks-per-node=1 and --nnodes for several nodes.",
    )


def _more_launchers(job: LintJob, launch: LintLaunch, here: int) -> Iterator[LintFinding]:
    """Launchers of one rank each may be as many as ranks, if that is the number of nodes that they are told."""
    option, tasks = launch.option("nnodes"), allocation.tasks(job, launch)
    waited = allocation.whole(allocation.resolved(job, option.value)) if option is not None else None
    if launch.launcher not in look.TORCHRUN or option is None or not waited or not tasks or tasks <= waited:
        return
    yield LintFinding(
        span=_tasks_span(job, launch) or launch.invocation.span,
        summary=f"srun starts {tasks} launchers, {here} a node, and {option.written} is {waited}",
        happens=f"{counted(waited, 'launcher')} that come first make the world; the other {tasks - waited} are not let"
        " in, or take a rank, a GPU and a port that are in use.",
        fix="Start one task a node (--ntasks-per-node=1) with a rank for each GPU.",
        edits=one_task_per_node(job, launch),
    )


def _of_gpus(shown: str) -> bool:
    return "$" in shown and re.search(r"GPU", shown, re.IGNORECASE) is not None


def _tasks_span(job: LintJob, launch: LintLaunch) -> Span | None:
    for name in ("ntasks-per-node", "ntasks"):
        option = allocation.gives(job, launch, name)
        if option is not None:
            return option.span
    return None


@rule(
    "S04",
    title="A batch script starts its ranks by srun",
    source="measured with Slurm 22.05 and Lightning 2.6; many threads",
    bad=(
        HEADER + ADDRESS + C10D + "\n",
        HEADER + ADDRESS + TORCHRUN.format("$SLURM_NODEID") + "\n",
        LIGHTNING.replace("srun --cpus-per-task=8 ", ""),
        HEADER + "python train.py --config base.yaml\n",
    ),
    good=(
        RANKED,
        LIGHTNING,
        HEADER.replace("nodes=2", "nodes=1") + "torchrun --standalone --nproc-per-node=4 train.py\n",
        HEADER + "for host in $(scontrol show hostnames); do\n  ssh $host hostname\ndone\n"
        "deepspeed --hostfile hf train.py\n",
    ),
)  # fmt: skip
def batch_script_without_srun(job: LintJob) -> Iterator[LintFinding]:
    """A batch script runs on the first node of the allocation only, whatever --nodes and --ntasks say. srun (or mpirun,
    or a launcher that reaches the nodes itself) starts the tasks."""
    if not job.is_batch:
        return
    count = look.batch_nodes(job) or 1
    per_node = allocation.whole(allocation.header_value(job, "ntasks-per-node"))
    tasks = per_node * count if per_node else allocation.whole(allocation.header_value(job, "ntasks"))
    reaching = {
        invocation.section
        for invocation in job.invocations
        if invocation.program in _REACHES_NODES and _starts_work(invocation.words[1:])
    }
    for launch in job.launches:
        if not (look.traits(launch).a_node or launch.launcher == "python") or _elsewhere(job, launch):
            continue
        if launch.launcher == "python" and launch.invocation.section in reaching:
            continue
        multi = (told_nodes(job, launch) or 1) > 1
        trainer = lightning.is_lightning(job, launch)
        if multi and count > 1:
            wanted = f"{look.count_text(launch)} nodes"
            effect = f"Only the first of {count} nodes starts: the rendezvous waits for the others until it times out."
        elif launch.launcher == "python" and count > 1:
            wanted = counted(count, "node")
            effect = f"One process starts on the first node; the other {count - 1} of {count} nodes stay idle" + (
                ", and Lightning waits for their ranks." if trainer else "."
            )
        elif launch.launcher == "python" and trainer and (tasks or 1) > 1:
            wanted = counted(tasks or 1, "task")
            effect = f"One of {tasks} tasks starts. Lightning sees SLURM and waits for the others."
        else:
            continue
        srun_options = _one_a_node(count, tasks) if launch.launcher != "python" else ()
        yield LintFinding(
            span=launch.invocation.span,
            summary=f"{launch.entry or 'python'} is started without srun in a batch script for {wanted}",
            happens="A batch script runs on the first node only. " + effect,
            fix="Put srun in front of it" + (" (one task a node)." if srun_options else "."),
            edits=under_srun(job, launch, *srun_options),
        )


def told_nodes(job: LintJob, launch: LintLaunch) -> int | None:
    """The largest number of nodes that the launcher is told; $SLURM_NNODES is the header's."""
    nodes = look.nnodes(launch)
    if nodes is not None:
        return nodes[1]
    value = look.value(launch, "nnodes")
    return allocation.whole(allocation.resolved(job, value.word)) if value is not None else None


def _one_a_node(count: int, tasks: int | None) -> tuple[str, ...]:
    return (f"--ntasks={count}", "--ntasks-per-node=1") if tasks is not None and tasks != count else ()


def _elsewhere(job: LintJob, launch: LintLaunch) -> bool:
    """Something around it reaches the other nodes, or the line is one of several for single nodes."""
    script = launch.script.shown.rsplit("/", 1)[-1] if launch.script is not None else ""
    if (
        launch.around
        or look.behind_unknown(launch)
        or script in _REACHES_NODES
        or any(outer.program in _REACHES_NODES for outer in launch.invocation.within)
    ):
        return True
    return launch.invocation.node_guard is not None or look.section_kind(job, launch) != "every"


def _starts_work(words: Sequence[object]) -> bool:
    shown = [getattr(word, "shown", "") for word in words]
    return not any(word in ("hostname", "nvidia-smi", "hostnamectl", "env", "date", "ip") for word in shown)


@rule(
    "S05",
    title="The ranks of a job start at the same time, each on its own node",
    source="measured with Slurm 22.05; many threads",
    leads_to=("master-port-in-use",),
    bad=(
        HEADER + ADDRESS + "".join(
            f"srun --nodes=1 --ntasks=1 -w node{k} {TORCHRUN.format(k)}\n" for k in range(2)
        ),
        HEADER + ADDRESS + "".join(f"srun {TORCHRUN.format(k)} &\n" for k in range(2)) + "wait\n",
    ),
    good=(
        RANKED,
        HEADER + ADDRESS + "".join(
            f"srun --nodes=1 --ntasks=1 -w node{k} {TORCHRUN.format(k)} &\n" for k in range(2)
        ) + "wait\n",
        LIGHTNING + "srun --cpus-per-task=8 python eval.py --accelerator gpu --devices 4 --num_nodes 2"
        " --strategy ddp\n",
    ),
)  # fmt: skip
def one_srun_after_the_other(job: LintJob) -> Iterator[LintFinding]:
    """srun returns when its tasks have ended. The next srun line starts only then, unless the first is in the
    background; and each srun takes the whole allocation, unless it is told -N1 -n1 and a node."""
    groups: dict[tuple[int, str], list[LintLaunch]] = {}
    for launch in job.launches:
        srun = allocation.srun_of(launch)
        if srun is None:
            continue
        if _rank(launch) is not None and (look.nnodes(launch) or (0, 2))[1] > 1:
            script = launch.script.shown if launch.script is not None else ""
            groups.setdefault((launch.invocation.section, script), []).append(launch)
    for launches in groups.values():
        ranks = {_rank(launch) for launch in launches}
        if len(ranks) < 2 or len(ranks) != len(launches):
            continue
        first = launches[0]
        blocking = [launch for launch in launches[:-1] if not _in_background(launch)]
        if blocking:
            yield _blocking(job, blocking[0], launches)
        elif (allocation.nodes(job, first) or 1) > 1 and allocation.gives(job, first, "nodelist") is None:
            yield LintFinding(
                span=first.invocation.span,
                summary=f"srun starts node rank {_rank(first)} on all {allocation.nodes(job, first)} nodes of the"
                " allocation; one node was wanted",
                happens="Every node gets every rank: EADDRINUSE, or steps that wait for each other.",
                fix="Write one srun for all, with --node-rank=$SLURM_NODEID in bash -c '...'; or give each srun"
                " -N1 -n1 and its node with -w.",
            )


def _rank(launch: LintLaunch) -> int | None:
    return look.number(look.value(launch, "node-rank"))


def _in_background(launch: LintLaunch) -> bool:
    srun = allocation.srun_invocation(launch)
    return launch.invocation.background or (srun is not None and srun.background)


def _blocking(job: LintJob, launch: LintLaunch, launches: Sequence[LintLaunch]) -> LintFinding:
    edits = []
    for lint_launch in launches if not launch.invocation.in_loop else ():
        outer = allocation.srun_invocation(lint_launch)
        span = outer.span if outer is not None else lint_launch.invocation.span
        end = job.text.find("\n", max(span.end, lint_launch.invocation.span.end))
        end = len(job.text) if end < 0 else end
        if span.exact and not _in_background(lint_launch):
            edits.append(Edit(Span(end, end, span.line), " &" + ("\nwait" if lint_launch is launches[-1] else "")))
    return LintFinding(
        span=launch.invocation.span,
        summary=f"The srun of node rank {_rank(launch)} is not in the background, and that of the next rank follows",
        happens="The first srun waits for the other ranks, which start only when it has ended: the rendezvous times"
        " out.",
        fix="Start all ranks by one srun, with --node-rank=$SLURM_NODEID in bash -c '...'; or end each line with & and"
        " put wait behind the last.",
        edits=tuple(edits),
    )


@rule(
    "S08",
    title="Lightning's devices are the tasks on a node",
    source="measured with Lightning 1.9.5 and 2.6.6 under Slurm 22.05",
    leads_to=("launcher-world-mismatch",),
    bad=(
        HEADER + "srun python train.py --accelerator gpu --devices 4 --num_nodes 2 --strategy ddp\n",
        Example(LIGHTNING.replace("--devices 4", "--devices 2"), "lightning=1.9"),
        HEADER + "srun python train.py --accelerator gpu --devices -1 --num_nodes 2 --strategy ddp\n",
    ),
    good=(LIGHTNING, LIGHTNING.replace("--devices 4", "--devices -1"), PLAIN),
)
def lightning_devices_not_tasks(job: LintJob) -> Iterator[LintFinding]:
    """Under srun Lightning starts no processes: each task is a rank. devices must be the number of tasks on a node,
    from which Lightning computes the world size and the sampler its share of the data."""
    for launch in job.launches:
        if launch.launcher != "srun" or not lightning.is_lightning(job, launch):
            continue
        here, asked = allocation.tasks_per_node(job, launch), lightning.devices(job, launch)
        argument = lightning.argument(job, launch, "devices", "gpus", "num_gpus", "num_processes")
        if here is None or asked is None or argument is None or allocation.binds_gpus(job, launch) is not None:
            continue
        if allocation.sees_own_gpus_only(job, launch) is not None:
            continue  # S07
        wanted = allocation.gpus_per_node(job, launch) if asked == "auto" else asked
        if wanted is None or wanted == here:
            continue
        yield LintFinding(
            span=argument.span,
            summary=f"{argument.written} is {counted(wanted, 'rank')} a node, and srun starts {counted(here, 'task')}"
            " on each",
            happens=_mismatch(job, here, wanted),
            fix=f"Ask SLURM for --ntasks-per-node={wanted}; Lightning starts no processes of its own under srun.",
            edits=_tasks_edit(job, launch, wanted),
        )


def _mismatch(job: LintJob, here: int, wanted: int) -> str:
    if lightning.since(job, 2, 1):
        return f"{lightning.named(job)} ends with a ValueError: devices {wanted} is not --ntasks-per-node {here}."
    if lightning.before(job, 1, 6):
        return f"{lightning.named(job)} does not recognise SLURM by this and starts processes of its own in every task."
    if lightning.version(job) is not None and here < wanted:
        return (
            f"{lightning.named(job)} trains with {here} of {wanted} ranks a node, while the sampler divides the data by"
            " the larger number: a part of the data is dropped without a message."
        )
    if lightning.version(job) is not None:
        return f"{lightning.named(job)} gives ranks twice: the start hangs or fails."
    return (
        "Lightning 2.1 and later end with a ValueError; 1.9 trains silently with fewer ranks and drops a part of the"
        " data; 1.5 starts processes of its own in every task."
    )


def _tasks_edit(job: LintJob, launch: LintLaunch, wanted: int) -> tuple[Edit, ...]:
    option = allocation.gives(job, launch, "ntasks-per-node")
    if option is None or allocation.gives(job, launch, "ntasks") is not None:
        return ()
    return allocation.set_value(job, option, str(wanted))
