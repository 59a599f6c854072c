"""Rules of what a program is told of its own number, beside what starts it: W21."""

from collections.abc import Iterator

from gpudoctor.lint import allocation, lightning, look
from gpudoctor.lint.count_statements import CountStatement, of_program, of_start, submits_itself
from gpudoctor.lint.model import LintJob, LintLaunch, Span
from gpudoctor.lint.program_arguments import decided_number
from gpudoctor.lint.python_code import argument, codes_and_starts
from gpudoctor.lint.rule import LintFinding, rule

_RUN = "torchrun --standalone --nproc-per-node=4 train.py --config conf/base.yaml\n#@ file conf/base.yaml\n"
_SLURM = (
    "#!/bin/bash\n#SBATCH --nodes={}\n#SBATCH --ntasks-per-node=8\n#SBATCH --gpus-per-node=8\n"
    "srun --kill-on-bad-exit=1 python train.py --config conf/base.yaml\n#@ file conf/base.yaml\n"
    "trainer:\n  devices: 8\n  num_nodes: 2\n"
)
_SUBMITIT = (
    "python train.py --multirun trainer.devices=2 hydra/launcher=submitit_slurm hydra.launcher.nodes=1"
    " hydra.launcher.tasks_per_node={}\n"
)
_COUNTING = ("srun", "mpirun", "accelerate", "deepspeed")


@rule(
    "W21",
    title="A program is told as many nodes and ranks as its start has",
    severity="warning",
    source="Lightning 2.6, plugins/environments: the world is num_nodes x devices; fairseq, dataclass/configs.py:"
    " distributed_world_size; programs that size their groups and batches by such a number",
    leads_to=("launcher-world-mismatch",),
    bad=(
        _RUN + "trainer:\n  devices: 8\n  num_nodes: 1\n",
        _RUN + "distributed:\n  world_size: 8\n  backend: nccl\n",
        _SLURM.format(4),
        "torchrun --standalone --nproc_per_node=4 train.py data --distributed-world-size 8\n",
        _SUBMITIT.format(1),
    ),
    good=(
        _RUN + "trainer:\n  devices: 4\n  num_nodes: 1\n",
        _RUN + "graph:\n  num_nodes: 2708\nmodel:\n  world_size: 12\n",
        _SLURM.format(2),
        _SUBMITIT.format(2),
        "srun --nodes=1 --ntasks=1 python -m own.driver trainer.nnodes=2 trainer.n_gpus_per_node=8\n",
        "torchrun --nproc-per-node=$N train.py --config conf/base.yaml\n"
        "#@ file conf/base.yaml\ndist:\n  world_size: 8\n",
    ),
)
def told_another_count(job: LintJob) -> Iterator[LintFinding]:
    """A number of ranks stands in the start, and once more in what the program is told. Where they differ, its groups,
    samplers and batches are of a world that is not there."""
    for launch in job.launches[: look.SIBLINGS]:
        if launch.launcher not in (*look.TORCHRUN, *_COUNTING) and not submits_itself(job, launch):
            continue
        started = {each.of: each for each in of_start(job, launch)}
        if "ray start" in job.text or (launch.launcher in ("srun", "mpirun") and allocation.tasks(job, launch) == 1):
            continue  # a driver, whose ranks somebody else starts
        said: set[str] = set()
        for told in of_program(job, launch) if started else ():
            start = started.get(told.of)
            if start is None or start.number == told.number or told.of in said or _told_by_others(job, launch, told):
                continue
            said.add(told.of)
            yield LintFinding(
                span=told.span or launch.invocation.span,
                summary=f"{told.written} is {told.number}, and {_says(start)}",
                happens="The ranks count with a world that is not theirs: they wait for ranks that nobody starts, or"
                " share out data, batches and GPUs wrongly."
                if told.number > start.number
                else "The ranks count with a world that is smaller than theirs: the last ones are refused, or train"
                " on what others train on.",
                fix=f"Write {start.number} for {told.written}, or start {told.number}.",
            )


def _says(start: CountStatement) -> str:
    what = {"nodes": "node", "ranks a node": "rank", "ranks": "rank"}[start.of]
    where = " on a node" if start.of == "ranks a node" else " in all" if start.of == "ranks" else ""
    plural = "" if start.number == 1 else "s"
    line = f", line {start.span.line}" if start.span is not None else ""
    return f"{start.number} {what}{plural} {'starts' if start.number == 1 else 'start'}{where} ({start.written}{line})"


def _told_by_others(job: LintJob, launch: LintLaunch, told: CountStatement) -> bool:
    """S08, S18, G06 hold Lightning's own arguments against the start, T40 what init_process_group is given."""
    if submits_itself(job, launch):
        return False
    if told.of == "ranks":
        return any(
            launch in starts and decided_number(code, argument(call, "world_size", 3), launch) is not None
            for code, starts in codes_and_starts(job)
            for call in code.calls
            if code.torch_name(call.func) == "init_process_group"
        )
    of_lightning = ("num_nodes", "nodes") if told.of == "nodes" else ("devices", "gpus", "num_gpus")
    given = lightning.argument(job, launch, *of_lightning)
    return given is not None and _same(given.span, told.span)


def _same(one: Span, other: Span | None) -> bool:
    return other is not None and one.line == other.line
