"""Rules of what a step asks of its job, and a job of a machine: S43, S44."""

import re
from collections.abc import Iterator

from gpudoctor.launchers.slurm import SRUN
from gpudoctor.lint.allocation import gpu_count, header_value, in_force, whole
from gpudoctor.lint.model import Invocation, LintJob, SbatchOption
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.slurm_examples import HEADER, PER_GPU, PLAIN, RANKED
from gpudoctor.lint.shell.sbatch import options_of

_UNITS = {"": 1, "k": 1 / 1024, "m": 1, "g": 1024, "t": 1024 * 1024}
_MOST_CPUS = 512
"""Threads of two processors of 128 cores; machines with GPUs have no more."""


@rule(
    "S43",
    title="A step asks for no more than its job has",
    source="Slurm 26.05, stepmgr/gres_stepmgr.c: step's > job's; srun_job.c: Only allocated 2 nodes asked for 4;"
    " ESLURM_INVALID_TASK_MEMORY",
    bad=(
        RANKED.replace("srun ", "srun --nodes=4 "),
        RANKED.replace("srun ", "srun --gres=gpu:8 "),
        RANKED.replace("#SBATCH --nodes=2", "#SBATCH --nodes=2\n#SBATCH --mem=64G").replace(
            "srun ", "srun --mem=128G "
        ),
    ),
    good=(
        RANKED.replace("srun ", "srun --nodes=2 --gres=gpu:4 "),
        RANKED.replace("srun ", "srun --mem=0 --gpus=8 "),
    ),
)
def step_beyond_job(job: LintJob) -> Iterator[LintFinding]:
    """srun in a batch script is given a part of what the header asked for: nodes, GPUs of a node, memory."""
    told: set[int] = set()
    for invocation in job.invocations:
        if invocation.program != "srun" or invocation.where != "batch" or invocation.span.start in told:
            continue
        told.add(invocation.span.start)
        yield from _beyond(job, invocation)


def _beyond(job: LintJob, invocation: Invocation) -> Iterator[LintFinding]:
    own = {option.name: option for option in options_of(invocation.words, SRUN) if option.known}
    if own.keys() & {"jobid", "het-group"}:
        return
    for name, of_step, of_job, refused in (
        ("nodes", _nodes(own), whole(header_value(job, "nodes")), "srun: error: Only allocated {} nodes asked for {}"),
        ("gres", _gpus(own), _gpus(job.sbatch), "Unable to create step: Invalid generic resource (gres) specification"),
        ("mem", _memory(own), _memory(job.sbatch), "Unable to create step: Memory required by task is not available"),
    ):
        option = own.get(name) or own.get("gpus-per-node")
        if of_step and of_job and of_step > of_job and option is not None:
            yield LintFinding(
                span=option.span,
                summary=f"{option.written} {option.value} is more than the job has: its header asks for {of_job:g}"
                + (" MB" if name == "mem" else ""),
                happens=f"{refused.format(of_job, of_step)}: the step is not started.",
                fix=f"Ask for as much in the header, or leave {option.written} out of the srun line.",
            )


def _nodes(options: dict[str, SbatchOption]) -> int | None:
    option = options.get("nodes")
    limits = re.fullmatch(r"(\d{1,5})(?:-\d{1,5})?", (option.value or "") if option is not None else "", re.ASCII)
    return int(limits[1]) if limits is not None else None


def _gpus(options: dict[str, SbatchOption]) -> int | None:
    """GPUs of a node, where only one option counts them."""
    counting = [name for name in ("gres", "gpus-per-node", "gpus", "gpus-per-task", "tres-per-task") if name in options]
    if len(counting) != 1 or counting[0] not in ("gres", "gpus-per-node"):
        return None
    return gpu_count(options[counting[0]].value, gres=counting[0] == "gres")


def _memory(options: dict[str, SbatchOption]) -> float | None:
    """Of a node, in MB; None for all of it (0)."""
    option = options.get("mem")
    match = re.fullmatch(r"(\d{1,9})([KMGT]?)B?", (option.value or "") if option is not None else "", re.IGNORECASE)
    return int(match[1]) * _UNITS[match[2].lower()] or None if match is not None else None


@rule(
    "S44",
    title="A machine has a CPU for each that its tasks ask for",
    severity="warning",
    source="sbatch of Slurm: CPU count per node can not be satisfied; own knowledge: two processors of 128 cores have"
    " 512 threads",
    bad=(
        PLAIN.replace("cpus-per-task=8", "cpus-per-task=160"),
        RANKED.replace("node=1", "node=8").replace("cpus-per-task=32", "cpus-per-task=96"),
    ),
    good=(PLAIN, HEADER + "srun python train.py\n", PER_GPU.replace("task=8", "task=128") + "srun python train.py\n"),
)
def more_cpus_than_a_machine_has(job: LintJob) -> Iterator[LintFinding]:
    """--cpus-per-task is for each task of the node: a launcher that takes all cores is one task."""
    option, each = in_force(job, "ntasks-per-node"), whole(header_value(job, "cpus-per-task"))
    tasks = whole(option.value) if option is not None else None
    if option is None or not each or not tasks or tasks == 1 or each * tasks <= _MOST_CPUS:
        return
    yield LintFinding(
        span=option.span,
        summary=f"{tasks} tasks a node with {each} CPUs each: {tasks * each} CPUs, and no node with GPUs has so many",
        happens="sbatch: error: CPU count per node can not be satisfied; the job is not submitted, or waits for ever.",
        fix="Write one task for a launcher such as torchrun, or divide the CPUs of a node by the tasks.",
    )
