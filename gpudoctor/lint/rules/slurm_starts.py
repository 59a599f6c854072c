"""Rules of what SLURM makes of a submission besides its header: S33 to S39."""

import re
from collections.abc import Iterator

from gpudoctor.knowledge.wording import counted
from gpudoctor.launchers.slurm import SBATCH
from gpudoctor.lint import allocation, look
from gpudoctor.lint.model import Invocation, LintJob, LintLaunch, Word
from gpudoctor.lint.rule import LintFinding, rule

_HEADER = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gres=gpu:4\n#SBATCH --ntasks-per-node=1\n"
_HEAD = 'export HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)\n'
_C10D = (
    "torchrun --nnodes=2 --nproc-per-node=4 --rdzv-id=$SLURM_JOB_ID --rdzv-backend=c10d --rdzv-endpoint=$HEAD:29400"
    " train.py\n"
)
_ONE = "torchrun --standalone --nproc-per-node=4 train.py\n"
_PROGRAMS = ("torchrun", "python", "python3", "accelerate", "deepspeed", "mpirun", "srun", "horovodrun", "bash", "sh")
_STEP_OPTIONS = ("--gres", "--ntasks-per-node", "--cpus-per-task", "--cpu-bind", "--gpu-bind", "--kill-on-bad-exit")
"""Options of srun that no training has for its own."""
_JOB_ID = r"\$\{?(?:SLURM_JOB_?ID|PBS_JOBID|LSB_JOBID|JOB_ID)\}?"


@rule(
    "S33",
    title="There is a task for each node",
    source="srun(1), sbatch(1): can't run 1 processes on 2 nodes, setting nnodes to 1; measured with Slurm 22.05",
    leads_to=("launcher-world-mismatch",),
    bad=(
        _HEADER.replace("#SBATCH --ntasks-per-node=1\n", "") + _HEAD + "srun -N 2 -n 1 " + _C10D,
        _HEADER.replace("nodes=2", "nodes=4").replace("ntasks-per-node=1", "ntasks=2")
        + _HEAD
        + "srun "
        + _C10D.replace("nnodes=2", "nnodes=4"),
    ),
    good=(
        _HEADER + _HEAD + "srun " + _C10D,
        _HEADER + _HEAD + "srun -N 2 -n 2 " + _C10D,
        _HEADER + _HEAD + "srun -N 1 -n 1 hostname\nsrun " + _C10D,
    ),
)
def fewer_tasks_than_nodes(job: LintJob) -> Iterator[LintFinding]:
    """A task is on one node. Where there are fewer tasks than nodes SLURM takes fewer nodes, with a warning, and the
    launchers of the others never start."""
    for launch in job.launches[: look.SIBLINGS]:
        srun = allocation.srun_of(launch)
        told = look.nnodes(launch)
        if srun is None or told is None or not look.traits(launch).a_node:
            continue
        own_nodes, own_tasks = srun.option("nodes"), srun.option("ntasks")
        tasks = look.whole(allocation.asked(job, launch, "ntasks"))
        nodes = look.whole(allocation.asked(job, launch, "nodes")) or look.batch_nodes(job)
        if own_tasks is None and (own_nodes is not None or srun.option("ntasks-per-node") is not None):
            continue
        if tasks is None or nodes is None or not 0 < tasks < nodes or told[0] <= tasks:
            continue
        if own_tasks is None and allocation.in_force(job, "ntasks") is None:
            continue
        given = own_tasks or allocation.in_force(job, "ntasks")
        assert given is not None
        yield LintFinding(
            span=given.span,
            summary=f"{counted(tasks, 'task')} for {counted(nodes, 'node')}, and the launcher waits for {told[0]}",
            happens=f"SLURM sets the nodes to {tasks}: {counted(tasks, 'launcher')} wait"
            f"{'s' if tasks == 1 else ''} for {told[0]} until the time-out.",
            fix=f"Write --ntasks={nodes} --ntasks-per-node=1.",
        )


@rule(
    "S34",
    title="The folder of the job's output is there before the job",
    source="sbatch(1), --output; slurmstepd: could not open stdout file: No such file or directory",
    bad=(
        "#!/bin/bash\n#SBATCH --output=logs/%j.out\n#SBATCH --gres=gpu:4\nmkdir -p logs\n" + _ONE,
        "#!/bin/bash\n#SBATCH -o out/run-%j.txt -e out/run-%j.err\n#SBATCH --gres=gpu:4\nmkdir out\n" + _ONE,
    ),
    good=(
        "#!/bin/bash\n#SBATCH --output=%j.out\n#SBATCH --gres=gpu:4\nmkdir -p logs\n" + _ONE,
        "#!/bin/bash\n#SBATCH --output=logs/%j.out\n#SBATCH --gres=gpu:4\nmkdir -p results\n" + _ONE,
    ),
)
def folder_made_too_late(job: LintJob) -> Iterator[LintFinding]:
    """SLURM opens the output's file before it runs the script's first line. A folder that the script itself makes is
    not there the first time: the job ends at once, and leaves no output that says why."""
    for name in ("output", "error"):
        option = allocation.in_force(job, name)
        folder = (option.value or "").rpartition("/")[0].removeprefix("./") if option is not None else ""
        if option is None or not folder or "%" in folder or "$" in folder:
            continue
        for invocation in job.invocations:
            if invocation.program != "mkdir" or invocation.within or invocation.where != "batch":
                continue
            made = [word.text.rstrip("/").removeprefix("./") for word in invocation.words[1:] if word.text]
            if folder in made:
                sure = not any(word.shown.startswith("-") for word in invocation.words[1:])
                yield LintFinding(
                    span=option.span,
                    severity="warning" if sure else "info",  # -p: it may be there since the last time
                    summary=f"the output goes to {folder}/, which the script makes only when it runs",
                    happens="Where the folder is not there yet, SLURM cannot open the file: the job fails at once,"
                    " without any output.",
                    fix=f"Make the folder before: mkdir -p {folder}; sbatch ...",
                )
                return


def _as_written(word: Word, invocation: Invocation) -> str:
    """The word, and where it is one variable of the text's own, what that was set to."""
    shown = word.shown
    for _ in range(8):
        bare = re.fullmatch(r"\$\{?(\w+)\}?", shown.strip("\"'"))
        setting = invocation.settings.get(bare[1]) if bare else None
        if setting is None:
            break
        shown = setting.word.shown
    return shown.strip("\"'")


@rule(
    "S35",
    title="The port is no job's number",
    source="own knowledge: a job's number grows without end, ports end at 65535 and begin at 1024 for users",
    leads_to=("master-port-in-use",),
    bad=(
        _HEADER + _HEAD + "srun " + _C10D.replace("29400", "$SLURM_JOB_ID"),
        _HEADER + _HEAD + "export PORT=1$SLURM_JOBID\nsrun " + _C10D.replace("29400", "$PORT"),
        _HEADER + "export MASTER_ADDR=$(hostname) MASTER_PORT=$SLURM_JOB_ID\nsrun python train.py\n",
    ),
    good=(
        _HEADER + _HEAD + "srun " + _C10D.replace("29400", "$((20000 + SLURM_JOB_ID % 20000))"),
        _HEADER + _HEAD + "PORT=$(expr 10000 + $(echo -n $SLURM_JOBID | tail -c 4))\nsrun "
        + _C10D.replace("29400", "$PORT"),
    ),
)  # fmt: skip
def port_of_the_jobs_number(job: LintJob) -> Iterator[LintFinding]:
    """Clusters count their jobs into the millions. A port that is that number is refused from 65536 on."""
    said: set[int] = set()
    for launch in job.launches[: look.SIBLINGS]:
        port = look.port(launch)
        word = port.word if port is not None else None
        if word is None:
            setting = launch.invocation.settings.get("MASTER_PORT")
            word = setting.word if setting is not None and setting.exported else None
        if word is None:
            continue
        shown = port.shown if port is not None else word.shown
        bare = re.fullmatch(r"\$\{?(\w+)\}?", shown.strip("\"'"))
        setting = launch.invocation.settings.get(bare[1]) if bare else None
        written = _as_written(setting.word, launch.invocation) if setting is not None else shown.strip("\"'")
        span = setting.word.span if setting is not None else word.span
        if re.fullmatch(rf"\d{{0,3}}{_JOB_ID}\d?", written) and span.start not in said:
            said.add(span.start)
            yield LintFinding(
                span=span,
                summary=f"the port is {written}, the number of the job",
                happens="Jobs' numbers pass 65535, the last port: OverflowError or 'port must be 0-65535'; small ones"
                " are root's ports.",
                fix="Write $((20000 + SLURM_JOB_ID % 20000)).",
            )


@rule(
    "S37",
    title="sbatch is given a batch script",
    source="sbatch(1): the first word that is no option is a script, which begins with #!; --wrap takes one word",
    bad=(
        "sbatch --nodes=1 --gres=gpu:4 " + _ONE,
        "sbatch --gres=gpu:4 train.py --lr 0.1\n",
        "sbatch --gres=gpu:4 --wrap python train.py --lr 0.1\n",
    ),
    good=(
        "sbatch --gres=gpu:4 --wrap 'python train.py --lr 0.1'\n",
        "sbatch --gres=gpu:4 train.sh --lr 0.1\n",
        "sbatch --gres=gpu:4 ./submit.py\n#@ file submit.py\n#!/usr/bin/env python\nprint(1)\n",
    ),
)
def sbatch_without_a_script(job: LintJob) -> Iterator[LintFinding]:
    """sbatch copies a script and runs it later. It looks for torchrun or python as a file in this folder, and refuses a
    file that does not begin with #!."""
    for invocation in job.invocations:
        if invocation.program != "sbatch" or any(word.text is None for word in invocation.words[1:2]):
            continue
        read = SBATCH.read(list(invocation.words))
        wrap = next((option for option in read.options if option.name == "wrap" and option.value is not None), None)
        rest = invocation.words[read.end :]
        first = rest[0].text if rest else None
        if wrap is not None and wrap.value is not None and wrap.value.text in _PROGRAMS and rest:
            yield LintFinding(
                span=wrap.span,
                summary=f"--wrap takes {wrap.value.text} alone; {rest[0].shown} is taken for the script",
                happens="sbatch refuses (Script arguments are not permitted with the --wrap option), or runs the one"
                " word.",
                fix="Put the whole command into quotes: --wrap 'python train.py ...'.",
            )
        elif wrap is None and first and (first in _PROGRAMS or first.endswith(".py")):
            name = first.rpartition("/")[2]
            here = next((section for section in job.sections if section.name.rpartition("/")[2] == name), None)
            if here is not None and here.text.startswith("#!"):
                continue
            if first.startswith(("./", "/")) and here is None:
                continue
            yield LintFinding(
                span=rest[0].span,
                summary=f"sbatch takes {first} for the batch script",
                happens="sbatch: error: Unable to open file, or: This does not look like a batch script (its first line"
                " must start with #!).",
                fix="Write the command into a script that begins with #!/bin/bash, or --wrap '...'.",
            )


@rule(
    "S38",
    title="Options of srun stand before the program",
    severity="warning",
    source="srun(1): srun [OPTIONS] executable [args]; what follows belongs to the program",
    bad=(
        _HEADER + _HEAD + "srun " + _C10D.strip() + " --gres=gpu:4 --cpus-per-task=8\n",
        _HEADER + "srun python train.py --ntasks-per-node 4\n",
    ),
    good=(
        _HEADER + _HEAD + "srun --gres=gpu:4 --cpus-per-task=8 " + _C10D,
        _HEADER + _HEAD + "srun " + _C10D.strip() + " --gpus 4\n",
    ),
)
def step_options_behind_the_program(job: LintJob) -> Iterator[LintFinding]:
    """Behind the program's name a word is the program's: srun does not see it, and the training's parser may refuse."""
    for launch in job.launches[: look.SIBLINGS]:
        if not look.sruns(launch) and not job.is_batch:
            continue
        for word in launch.script_words:
            name = (word.text or "").partition("=")[0]
            if name in _STEP_OPTIONS:
                yield LintFinding(
                    span=word.span,
                    summary=f"{name} stands behind the program, so it is the program's and not srun's",
                    happens="The step is started without it, and the program ends at an unknown argument.",
                    fix="Put it between srun and the launcher.",
                )
                break


@rule(
    "S39",
    title="What salloc starts runs on one node",
    source="salloc(1): the command runs on the node where salloc is typed (or the first of the allocation), once",
    leads_to=("launcher-world-mismatch",),
    bad=(
        "salloc -N 2 --gres=gpu:4 " + _C10D.replace("$HEAD", "n01").replace("$SLURM_JOB_ID", "7"),
        "salloc --nodes=2 --gpus-per-node=4 -t 60 " + _C10D.replace("$HEAD", "n01").replace("$SLURM_JOB_ID", "7"),
    ),
    good=(
        "salloc -N 2 --gres=gpu:4 srun --ntasks-per-node=1 "
        + _C10D.replace("$HEAD", "n01").replace("$SLURM_JOB_ID", "7"),
        "salloc -N 1 --gres=gpu:4 " + _ONE,
    ),
)
def salloc_without_srun(job: LintJob) -> Iterator[LintFinding]:
    """salloc gets the nodes and runs its command once. srun in front of the launcher starts it on each of them."""
    for launch in job.launches[: look.SIBLINGS]:
        nodes = look.nnodes(launch)
        outer = [invocation.program for invocation in launch.invocation.within]
        if "salloc" not in outer or look.sruns(launch) or allocation.under_mpi(launch) or not _a_node(launch):
            continue
        if nodes is not None and nodes[1] > 1:
            yield LintFinding(
                span=look.head_span(launch),
                summary=f"salloc starts {launch.entry or launch.launcher} once, and {nodes[1]} nodes are waited for",
                happens="One launcher waits for the others until the time-out: nobody starts them.",
                fix="Write srun --ntasks-per-node=1 in front of the launcher.",
            )


def _a_node(launch: LintLaunch) -> bool:
    return look.traits(launch).a_node
