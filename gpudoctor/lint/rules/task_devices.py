"""Rules of what a task sees that starts several ranks: G16, and of what a shell was not told: Q28, Q29."""

import re
from collections.abc import Iterator

from gpudoctor.launcher.programs import trains
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import allocation, look, processes
from gpudoctor.lint.model import Invocation, LintJob, Span
from gpudoctor.lint.rule import LintFinding, rule

_TASK = (
    "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gres=gpu:4\n"
    'export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)\n'
    "srun bash -c 'CUDA_VISIBLE_DEVICES={} torchrun --nnodes=2 --nproc-per-node={} --node-rank=$SLURM_NODEID"
    " --master-addr=$MASTER_ADDR --master-port=29501 train.py'\n"
)
_ASKED = ("gres", "gpus", "gpus-per-node", "gpus-per-task")
_OWN = frozenset(
    (
        "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK", "PMI_LOCAL_RANK",
        "PALS_LOCAL_RANKID", "FLUX_TASK_LOCAL_ID", "LOCAL_RANK", "SLURM_PROCID",
    )
)  # fmt: skip


@rule(
    "G16",
    title="A launcher of several ranks sees a GPU for each of them",
    source="CUDA Programming Guide, CUDA_VISIBLE_DEVICES; srun(1): SLURM_LOCALID is one number",
    leads_to=("duplicate-gpu",),
    bad=(_TASK.format("$SLURM_LOCALID", 4), _TASK.format("${SLURM_LOCALID}", 8)),
    good=(_TASK.format("0,1,2,3", 4), _TASK.format("$SLURM_LOCALID", 1)),
)
def one_gpu_for_a_launcher(job: LintJob) -> Iterator[LintFinding]:
    """A task's own number is one GPU. A launcher that starts several ranks hands them the list that it was given: all
    but the first find none."""
    for launch in job.launches[: look.SIBLINGS]:
        setting = launch.invocation.settings.get("CUDA_VISIBLE_DEVICES")
        if setting is None or not setting.exported or not look.traits(launch).a_node:
            continue
        bare = re.fullmatch(r"[\"']?\$\{?(\w+)\}?[\"']?", setting.word.shown)
        count = processes.started(job, launch).number
        if bare is None or bare[1] not in _OWN or not isinstance(count, int) or count < 2:
            continue
        by_slurm = allocation.srun_of(launch) is not None and any(allocation.in_force(job, name) for name in _ASKED)
        if by_slurm and any(each.where != "task" for each in setting.word.expansions):
            continue  # the step's own list is put over it (src/plugins/gres/common/gres_common.c)
        yield LintFinding(
            span=setting.word.span,
            summary=f"CUDA_VISIBLE_DEVICES is ${bare[1]}, one GPU, and {launch.entry or launch.launcher} starts {count}"
            " ranks",
            happens="CUDA error: invalid device ordinal for all local ranks but 0, or all of them on one GPU.",
            fix="Take CUDA_VISIBLE_DEVICES away: the launcher gives each rank its local rank.",
        )


_MOST = 16
"""GPUs of the largest machine (DGX-2, HGX boards of 16); what has more devices is of another kind."""
_OTHERS = lazy_re(
    r"neuron|\btrn\d|\bxla\b|\btpu\b|gloo|\bhpu\b|(?<![\w-])(?:cpu|mpi)(?![\w-])", re.IGNORECASE | re.MULTILINE
)
"""Of `--cpu-offload` and `--mpi=pmix` nobody computes on the CPU."""


@rule(
    "G17",
    title="A machine has a GPU for each rank",
    severity="warning",
    source="own knowledge: machines with NVIDIA GPUs have up to 16 of them",
    leads_to=("duplicate-gpu",),
    bad=(
        "torchrun --standalone --nproc-per-node=32 train.py\n",
        "python -m torch.distributed.launch --nproc_per_node=24 --nnodes=1 train.py\n",
    ),
    good=(
        "torchrun --standalone --nproc-per-node=16 train.py\n",
        "torchrun --standalone --nproc-per-node=32 train.py --backend gloo\n",
        "torchrun --standalone --nproc-per-node=32 train_neuron.py\n",
    ),
)
def more_ranks_than_a_machine_has(job: LintJob) -> Iterator[LintFinding]:
    """--nproc-per-node is for each machine, and not for all of them together."""
    if _OTHERS.search(re.sub(r"^[ \t]*#[^\n]*", "", job.text, flags=re.MULTILINE)):
        return
    for launch in job.launches[: look.SIBLINGS]:
        count = processes.started(job, launch)
        if launch.script is not None and not trains(launch.script, launch.module):
            continue  # what prepares data has a rank for each processor
        if not look.traits(launch).a_node or processes.on_cpu(launch) or processes.gpus(job, launch) is not None:
            continue
        if isinstance(count.number, int) and count.number > _MOST and count.word is not None:
            yield LintFinding(
                span=count.word.span,
                summary=f"{count.written} {count.number} on one machine, and no machine has so many GPUs",
                happens="Invalid device ordinal, at the first rank that has no GPU; on the CPU it is right.",
                fix="Write the GPUs of one machine.",
            )
            break


_ACTIVATE = "#!/bin/bash\n#SBATCH --gres=gpu:2\n{}conda activate torch\ntorchrun --standalone --nproc-per-node=2 t.py\n"
_HOOK = lazy_re(
    r"conda\.sh|conda(?:\.exe)?[\"']?\s+[\"']?shell\.|conda\s+init|\.bashrc|\.bash_profile|\.profile|\bmodule\b|\bml\b|"
    r"mamba\.sh|micromamba|\bspack\b|/etc/profile|bin/activate",
)


@rule(
    "Q28",
    title="conda activate has conda's function",
    severity="warning",
    source="conda's documentation, Activation: a shell that is not interactive does not read what conda init wrote into"
    " ~/.bashrc; CondaError: Run 'conda init' before 'conda activate'",
    bad=(
        _ACTIVATE.format(""),
        "ssh n01 'conda activate torch && torchrun --standalone --nproc-per-node=2 train.py'\n",
        "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --gres=gpu:2\ntorchrun --standalone --nproc-per-node=2 train.py\n"
        "source ~/torch/bin/activate\n",
    ),
    good=(
        _ACTIVATE.format("source ~/miniconda3/etc/profile.d/conda.sh\n"),
        _ACTIVATE.format('eval "$(conda shell.bash hook)"\n'),
        _ACTIVATE.format("module load anaconda\n"),
        _ACTIVATE.format("source $WORK/start-of-day\n"),
        _ACTIVATE.format("").replace("#!/bin/bash", "#!/bin/bash -l"),
        "conda activate torch\ntorchrun --standalone --nproc-per-node=2 train.py\n",
    ),
)
def activated_without_a_hook(job: LintJob) -> Iterator[LintFinding]:
    """`conda activate` is a function of the shell, and conda init puts it into ~/.bashrc, which a batch script or
    `ssh HOST COMMAND` does not read. The command then fails, and the python of the system goes on."""
    yield from _activated_too_late(job)
    if job.has_unread_source or _HOOK.search(job.text) or re.match(r"#!\s*\S+(?:\s+\S+)?\s+-\w*[li]", job.text):
        return
    starts = [launch.invocation.span for launch in job.launches]
    line = _LINE.search(job.text) if job.is_batch else None
    place = Span(line.start(1), line.end(1), job.text.count("\n", 0, line.start(1)) + 1) if line is not None else None
    if place is None:
        far = (launch.invocation for launch in job.launches if _far(launch.invocation))
        place = next((invocation.span for invocation in far), None)
    if place is not None and any(start.start >= place.start for start in starts):
        yield LintFinding(
            span=place,
            summary="conda activate in a shell that is not interactive, and nothing loads conda's function before",
            happens="CondaError: Run 'conda init' before 'conda activate': the environment is not used.",
            fix="Write source $(conda info --base)/etc/profile.d/conda.sh before it (or #!/bin/bash -l).",
        )


def _activated_too_late(job: LintJob) -> Iterator[LintFinding]:
    """Behind the last start nothing is left that the environment is for."""
    lines = [*_ENTERED.finditer(job.text)] if job.is_batch and len(job.sections) == 1 else []
    ends = [launch.invocation.span.end for launch in job.launches]
    if len(lines) == 1 and ends and lines[0].start() > max(ends):
        at = lines[0].start(1)
        yield LintFinding(
            span=Span(at, lines[0].end(1), job.text.count("\n", 0, at) + 1),
            summary="the environment is entered behind the last start, which runs without it",
            happens="The training runs by the python of the system: No module named torch, or command not found.",
            fix="Move the line in front of the start.",
        )


_ENTERED = lazy_re(r"^[ \t]*((?:conda|source|\.)[ \t]+(?:\S*/)?activate\b[^\n;&|]*)", re.MULTILINE)
_LINE = lazy_re(r"^[ \t]*(conda[ \t]+activate\b[^\n;&|]*)", re.MULTILINE)


def _far(invocation: Invocation) -> bool:
    """`ssh HOST 'conda activate X && ...'`, and no login shell in it."""
    outer = next((outer for outer in invocation.within if outer.program == "ssh"), None)
    if outer is None:
        return False
    text = " ".join(word.shown for word in outer.words)
    return "conda activate" in text and not re.search(r"\b(?:ba)?sh\s+-\w*[li]", text)


_ENDLESS = (
    (r"ray\s+start\b.*\s--block\b", "ray start --block"),
    (r"sleep\s+(?:infinity|inf)\b", "sleep infinity"),
    (r"tail\s+-[fF]\b", "tail -f"),
    (r"(?:tensorboard|jupyter(?:-lab|-notebook)?)\s+(?:--|lab|notebook|server)", "a server"),
    (r"while\s+true", "while true"),
)


@rule(
    "Q29",
    title="What does not end stands behind the start, or in the background",
    source="ray start: --block waits until a process of the node ends; sleep(1), tail(1)",
    bad=(
        "ray start --head --port=6379 --block\nsleep 5\npython train.py --address auto\n",
        "tensorboard --logdir runs\ntorchrun --standalone --nproc-per-node=4 train.py\n",
    ),
    good=(
        "ray start --head --port=6379 --block &\nsleep 5\npython train.py --address auto\n",
        "tensorboard --logdir runs &\ntorchrun --standalone --nproc-per-node=4 train.py\n",
        "ray start --head --port=6379\npython train.py --address auto\n",
    ),
)
def start_behind_what_does_not_end(job: LintJob) -> Iterator[LintFinding]:
    """The shell comes to the next line when this one has ended, and a server does not end."""
    starts = [launch.invocation for launch in job.launches[: look.SIBLINGS]]
    for invocation in job.invocations:
        if invocation.background or invocation.conditional or invocation.node_guard is not None or invocation.in_loop:
            continue
        text = " ".join(word.shown for word in invocation.words)
        name = next((name for pattern, name in _ENDLESS[:4] if re.match(pattern, text)), "")
        outside = [outer.program for outer in invocation.within]
        if not name or {"docker", "podman", "ssh", "tmux", "screen", "nohup", "timeout", "pdsh"} & {*outside}:
            continue
        if any(outer.background for outer in invocation.within):
            continue
        behind = next(
            (
                start
                for start in starts
                if start.section == invocation.section
                and start.span.start > invocation.span.end
                and start.manifest_path == invocation.manifest_path
                and [outer.program for outer in start.within] == outside
            ),
            None,
        )
        if behind is not None and not re.search(
            r"\n\s*(?:else|elif|;;|\})", job.text[invocation.span.end : behind.span.start]
        ):
            yield LintFinding(
                span=invocation.span,
                summary=f"{name} does not end, and {behind.program} in line {behind.span.line} stands behind it",
                happens="The start is never reached.",
                fix="Put & behind it, so that it runs in the background.",
            )
