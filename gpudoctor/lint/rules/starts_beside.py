"""Rules of starts beside each other and of where they run: E19, G19, Q32, Q33, S41, S42."""

import re
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.model import Invocation, LintJob, LintLaunch, SetVariable
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.slurm_examples import HEADER

_TWO = (
    "CUDA_VISIBLE_DEVICES={} torchrun --standalone --nproc-per-node=2 a.py &\n"
    "CUDA_VISIBLE_DEVICES={} torchrun --standalone --nproc-per-node=2 b.py &\nwait\n"
)
_LIST = lazy_re(r"\d{1,3}(?:,\d{1,3})*", re.ASCII)


@rule(
    "G19",
    title="Trainings beside each other have GPUs of their own",
    severity="warning",
    source="CUDA: two processes on a GPU share its memory and its time",
    bad=(_TWO.format("0,1", "1,2"), _TWO.format("0,1", "0,1")),
    good=(_TWO.format("0,1", "2,3"), _TWO.format("0,1", "0,1").replace("a.py &", "a.py")),
)
def gpus_of_two_trainings(job: LintJob) -> Iterator[LintFinding]:
    """Two trainings that run at once on one machine, and are both shown the same GPU, halve each other's memory."""
    if job.kind not in ("shell", "sbatch"):
        return
    for first, second in look.neighbours(job):
        if first.invocation.span == second.invocation.span or first.script is None or second.script is None:
            continue
        (one, own), (two, other) = _visible(first), _visible(second)
        shared = sorted(own & other)
        if one is None or two is None or not shared or (one.word.span == two.word.span and one.how != "prefix"):
            continue
        if any(launch.launcher == "python" or _rank_of(launch) for launch in (first, second)):
            continue  # ranks of one world
        yield LintFinding(
            span=two.word.span,
            summary=f"GPU {shared[0]} is shown to {first.script.shown} in line {first.invocation.span.line} too, which"
            " runs at the same time",
            happens="Both train on it: out of memory, or half as fast.",
            fix=f"Give {second.script.shown} other GPUs, or start it when the first has ended.",
        )
        return


def _visible(launch: LintLaunch) -> tuple[SetVariable | None, set[int]]:
    setting = launch.invocation.settings.get("CUDA_VISIBLE_DEVICES")
    text = setting.word.text if setting is not None and setting.exported else None
    return setting, {int(each) for each in text.split(",")} if text and _LIST.fullmatch(text) else set()


def _rank_of(launch: LintLaunch) -> bool:
    nodes = look.nnodes(launch)
    return look.value(launch, "node-rank") is not None or (nodes is not None and nodes[1] > 1)


_BEHIND = lazy_re(r"(?:CUDA_VISIBLE_DEVICES|NCCL_\w+|OMP_NUM_THREADS|MASTER_(?:ADDR|PORT)|TORCH_\w+|NVIDIA_\w+)=\S*")


@rule(
    "Q32",
    title="A variable of a start stands before it",
    source="bash(1), Simple Commands: NAME=value in front of the command's name is its environment, behind it a word",
    bad=(
        "torchrun --standalone --nproc-per-node=4 train.py CUDA_VISIBLE_DEVICES=0,1,2,3\n",
        "python -m torch.distributed.run --nproc-per-node=2 train.py --lr 0.1 NCCL_DEBUG=INFO\n",
    ),
    good=(
        "CUDA_VISIBLE_DEVICES=0,1,2,3 torchrun --standalone --nproc-per-node=4 train.py\n",
        "torchrun --standalone --nproc-per-node=4 train.py --env NCCL_DEBUG=INFO\n",
    ),
)
def variable_behind_the_program(job: LintJob) -> Iterator[LintFinding]:
    """Behind the program's name it is an argument of the program, and no variable is set."""
    for launch in job.launches[: look.SIBLINGS]:
        words = launch.script_words
        for at, word in enumerate(words):
            before = words[at - 1].shown if at else ""
            if _BEHIND.fullmatch(word.raw) and not (before.startswith("-") and "=" not in before):
                yield LintFinding(
                    span=word.span,
                    summary=f"{word.raw[:60]} stands behind the program, so it is an argument and no variable",
                    happens="The program gets it as a word, and refuses it or passes it over; the variable is not set.",
                    fix=f"Write it in front: {word.raw[:40]} {launch.invocation.words[0].shown} ...",
                )
                return


_HANDS = "export RANK={} WORLD_SIZE={}\n"


@rule(
    "E19",
    title="Ranks by hand have the head's address",
    severity="warning",
    source="torch/distributed/rendezvous.py of 2.13: env:// expects MASTER_ADDR and MASTER_PORT",
    bad=(
        _HANDS.format(0, 2) + "export MASTER_IP=10.20.0.11\npython train.py --lr 0.1\n",
        "RANK=1 WORLD_SIZE=4 LOCAL_RANK=1 python train.py\n",
    ),
    good=(
        _HANDS.format(0, 2) + "export MASTER_ADDR=10.20.0.11 MASTER_PORT=61234\npython train.py\n",
        _HANDS.format(0, 2) + "python train.py --dist-url tcp://10.20.0.11:61234\n",
    ),
)
def hands_without_a_head(job: LintJob) -> Iterator[LintFinding]:
    """Who sets RANK and WORLD_SIZE sets MASTER_ADDR and MASTER_PORT too: env:// asks for all four."""
    if job.kind != "shell" or re.search(r"\bMASTER_ADDR\b|^[ \t]*(?:source|\.)[ \t]", job.text, re.MULTILINE):
        return
    for launch in job.launches[: look.SIBLINGS]:
        told = [launch.invocation.settings.get(name) for name in ("RANK", "WORLD_SIZE")]
        if launch.launcher != "python" or launch.around or look.from_platform(job, launch) or launch.script is None:
            continue
        if not all(each is not None and each.exported and each.word.text for each in told) or told[1] is None:
            continue
        size = look.whole(told[1].word.text)
        if not size or size < 2 or any("://" in word.shown or "addr" in word.shown for word in launch.script_words):
            continue
        yield LintFinding(
            span=launch.invocation.words[0].span,
            summary="RANK and WORLD_SIZE are set by hand, and MASTER_ADDR is not",
            happens="ValueError: environment variable MASTER_ADDR expected, but not set; where init_method is env://.",
            fix="Set MASTER_ADDR and MASTER_PORT to rank 0's host and a free port of it, or start it by torchrun.",
        )
        return


_SSH = (
    "for i in 0 1; do ssh n$i {}torchrun --nnodes=2 --nproc-per-node=4 --node-rank=$i --master-addr=n0 {} & done; "
    "wait\n"
)


@rule(
    "Q33",
    title="What ssh starts is looked for in its own folder",
    severity="info",
    source="ssh(1): the command runs in the home directory of the login shell",
    bad=(_SSH.format("", "train.py"), _SSH.format("", "src/pretrain.py")),
    good=(_SSH.format('"cd /work/run && ', 'train.py"'), _SSH.format("", "/work/run/train.py")),
)
def ssh_begins_at_home(job: LintJob) -> Iterator[LintFinding]:
    """ssh starts in the home folder; a name without a path is looked for there."""
    for launch in job.launches[: look.SIBLINGS]:
        over = [outer for outer in launch.invocation.within if outer.program == "ssh"]
        script = launch.script
        if not over or script is None or launch.module or script.text is None or script.text.startswith(("/", "~")):
            continue
        if _goes_there(over[-1]) or not script.text.endswith(".py") or launch.invocation.where == "batch":
            continue
        yield LintFinding(
            span=script.span,
            summary=f"{script.text} is looked for in the home folder of the host",
            happens="can't open file: No such file or directory, unless it lies in the home folder there.",
            fix="Write cd FOLDER && in front, in the quotes that ssh gets, or the whole path.",
        )
        return


def _goes_there(outer: Invocation) -> bool:
    return (
        re.search(r"\bcd\b|--chdir|-C\b|bash -l|docker|exec", " ".join(word.shown for word in outer.words)) is not None
    )


_ARRAY = (
    "#!/bin/bash\n#SBATCH --array=0-3\n#SBATCH --gres=gpu:1\n#SBATCH --cpus-per-task=8\n#SBATCH --output={}\n"
    "python train.py\n"
)


@rule(
    "S41",
    title="Each task of an array writes a log of its own",
    severity="warning",
    source="sbatch(1), filename pattern: %A_%a; the file is opened anew by each task (--open-mode)",
    bad=(_ARRAY.format("train.log"), _ARRAY.format("logs/%x.out")),
    good=(_ARRAY.format("train_%A_%a.log"), _ARRAY.format("%j.out")),
)
def array_writes_one_log(job: LintJob) -> Iterator[LintFinding]:
    """A name without the task's number is the same for all of them: each truncates what the others wrote."""
    array, output, mode = (job.sbatch.get(name) for name in ("array", "output", "open-mode"))
    if array is None or output is None or array.ignored or output.ignored or not output.value:
        return
    if re.search(r"%\d*[aAjJ]|\$|/dev/null", output.value) or (mode is not None and (mode.value or "")[:1] == "a"):
        return
    if re.fullmatch(r"\d+(?:%\d+)?", array.value or ""):
        return
    yield LintFinding(
        span=output.span,
        summary=f"--output={output.value} is one file for all tasks of the array",
        happens="Each task opens it anew: what the others wrote is lost, and lines are mixed.",
        fix="Put %A_%a into the name: the job's number and the task's.",
    )


@rule(
    "S42",
    title="mpirun and horovodrun are started once in a job",
    source="srun(1): a task is started for each --ntasks; mpirun(1) starts all ranks by itself",
    bad=(
        HEADER + "srun mpirun -np 8 --bind-to none python train.py\n",
        HEADER + "srun horovodrun -np 8 -H n01:4,n02:4 python train.py\n",
    ),
    good=(
        HEADER + "mpirun -np 8 --bind-to none python train.py\n",
        HEADER + "srun -N 1 -n 1 mpirun -np 4 --bind-to none python train.py\n",
    ),
)
def mpirun_in_each_task(job: LintJob) -> Iterator[LintFinding]:
    """srun starts it once in each task, and each of them starts all the ranks."""
    for launch in job.launches[: look.SIBLINGS]:
        names = [outer.program for outer in launch.invocation.within]
        own = launch.launcher if launch.launcher in ("mpirun", "horovodrun") else ""
        inner = own or next((each for each in names if each in ("mpirun", "mpiexec", "horovodrun")), "")
        if "srun" not in names or not inner or (inner in names and names.index(inner) < names.index("srun")):
            continue
        nodes, tasks = look.srun_nodes(job, launch), look.tasks_per_node(job, launch)
        if not nodes or not tasks or nodes * tasks < 2:
            continue
        yield LintFinding(
            span=launch.invocation.words[0].span,
            summary=f"srun starts {nodes * tasks} tasks, and {inner} in each of them",
            happens=f"Each {inner} starts all the ranks: too few slots, or {nodes * tasks} trainings on the same GPUs.",
            fix=f"Start {inner} without srun, once; or let srun start the ranks: srun --mpi=pmix python ...",
        )
        return
