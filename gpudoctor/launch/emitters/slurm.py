"""SLURM: a batch script with one torchrun a node, and the same with one task a rank.

What a task has to know of itself (its node's rank) is expanded in the task, inside `bash -c '...'`: in the batch shell
SLURM_NODEID and SLURM_PROCID are 0 on every node. srun repeats --cpus-per-task, which 22.05 to 23.02 do not take
over from the header (facts of issue 5, 1.6; measured with 22.05.8).
"""

from msgspec.structs import replace

from gpudoctor import command as shell_words
from gpudoctor.launch import words
from gpudoctor.launch.emitters.torchrun import job_name, launcher, option
from gpudoctor.launch.plan import Block, CannotEmit, Emission, EmittedFile, LaunchPlan

PORT = "MASTER_PORT=$((61000 + SLURM_JOB_ID % 4536))"
ADDRESS = 'MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'
RANKS = "RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS"
BY_SCHEDULER = ("CUDA_VISIBLE_DEVICES",)
"""SLURM sets these for each task."""


def emit(plan: LaunchPlan) -> Emission:
    """What to paste. Raises `CannotEmit`."""
    if plan.elastic:
        raise CannotEmit("--elastic: an allocation has a fixed number of nodes; --framework torchrun is elastic")
    counts = sorted({node.processes for node in plan.nodes})
    if len(counts) > 1:
        raise CannotEmit(
            f"nodes with {counts[0]} to {counts[-1]} processes: a batch script asks for as many on each; "
            f"--gpus-per-node {counts[0]}"
        )
    stem = job_name(replace(plan, master_port=0)).removesuffix("-0")
    main, per_rank = f"{stem}.sbatch", f"{stem}-task-per-rank.sbatch"
    return Emission(
        blocks=(Block("on a login node", f"sbatch {words.word(main)}", 0),),
        files=(
            EmittedFile(main, _script(plan, stem, per_rank=False)),
            EmittedFile(per_rank, _script(plan, stem, per_rank=True), alternative=True),
        ),
        notes=(
            f"{per_rank} (written by -o) starts one task for each rank instead of one torchrun a node; Lightning and "
            "scripts that read RANK and LOCAL_RANK work in both.",
        ),
    )


def _script(plan: LaunchPlan, stem: str, *, per_rank: bool) -> str:
    count = plan.nodes[0].processes
    header = ["#!/bin/bash", *_options(plan, stem, count if per_rank else 1)]
    return "\n".join([*header, "", "set -eu", *_exports(plan), "", *_step(plan, per_rank), ""])


def _options(plan: LaunchPlan, stem: str, tasks: int) -> list[str]:
    """The #SBATCH lines: SLURM reads them up to the first command."""
    count = plan.nodes[0].processes
    options = [f"--job-name={stem}", f"--nodes={len(plan.nodes)}", f"--ntasks-per-node={tasks}"]
    if plan.accelerator == "cuda":
        options.append(f"--gres=gpu:{count}")
    if plan.cpus_per_process:
        options.append(f"--cpus-per-task={plan.cpus_per_process * (count if tasks == 1 else 1)}")
    if plan.hosts_named:
        options.append(f"--nodelist={','.join(node.name for node in plan.nodes)}")
    return [f"#SBATCH {each}" for each in options]


def _exports(plan: LaunchPlan) -> list[str]:
    lines = [
        words.comment("The first node of the job; every task gets these two, for srun hands the environment on."),
        f"export {ADDRESS}",
        words.comment(
            "A port for each job, above those that the kernel hands out to clients (32768-60999); two jobs on one node "
            "hardly ever share it."
        ),
        f"export {PORT}",
    ]
    for variable in (*plan.environment, *(each for node in plan.nodes for each in node.environment)):
        if variable.name in BY_SCHEDULER or any(variable.name + "=" in line for line in lines):
            continue
        if variable.reason:
            lines.append(words.comment(f"{variable.name}: {variable.reason}"))
        lines.append(f"export {variable.name}={words.word(variable.value)}")
    lines += [f"unset {name}" for name in plan.leftovers if name not in ("MASTER_ADDR", "MASTER_PORT")]
    return lines


def _step(plan: LaunchPlan, per_rank: bool) -> list[str]:
    srun = ["srun"]
    if plan.cpus_per_process:
        srun.append('--cpus-per-task="$SLURM_CPUS_PER_TASK"')
    srun += ["--kill-on-bad-exit=1", "--wait=60"]
    if per_rank:
        inner = f"{RANKS} exec {words.line([plan.python, *plan.program])}"
        about = "One task a rank; its numbers are expanded in the task, inside the single quotes."
    else:
        count = plan.nodes[0].processes
        options = [
            option(plan, "nnodes", '"$SLURM_NNODES"'),
            option(plan, "nproc-per-node", count),
            option(plan, "node-rank", '"$SLURM_NODEID"'),
            option(plan, "master-addr", '"$MASTER_ADDR"'),
            option(plan, "master-port", '"$MASTER_PORT"'),
        ]
        inner = f"exec {words.line(launcher(plan))} {' '.join(options)} {words.line(plan.program)}"
        about = "One torchrun a node; SLURM_NODEID is expanded in the task, inside the single quotes."
    end = "--kill-on-bad-exit, --wait: when a rank fails, the others end too, and do not wait until the time limit."
    return [words.comment(about), words.comment(end), f"{' '.join(srun)} bash -c {shell_words.word(inner)}"]
