"""Rules of names that a script sets and uses, and of commands that run where they stand: V15, Q31."""

import re
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.model import LintJob, Word
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.shell.platform import is_platform

_SET = lazy_re(
    r"^[ \t]*(?:export[ \t]+|local[ \t]+|declare[ \t]+(?:-\w+[ \t]+)*)?([A-Za-z_]\w*)=(?!\s*$)", re.MULTILINE
)
_EXPORTED = lazy_re(r"^[ \t]*export[ \t]+(\w+)=", re.MULTILINE)
_USED, _ADDED_TO = lazy_re(r"\$\{?[!#]?(\w+)"), lazy_re(r"\b(\w+)\+=")
_FOR_OTHERS = lazy_re(
    r"(?:NCCL|OMP|MKL|HF|TRANSFORMERS|WANDB|CUDA|TORCH|PYTORCH|PYTHON|TOKENIZERS|GLOO|FI|UCX|MIOPEN|ROCR|HIP|RDMAV|MASTER"
    r"|NVIDIA|VLLM|RAY|SGLANG|TRITON|MPICH|I_MPI|OMPI|PMI|XLA|JAX|TF|LD|DS|ACCELERATE|HYDRA|SLURM|SRUN|PBS|http|https|no|ftp|all)_"
)
"""Beginnings of variables that programs read by themselves."""
_SCRIPTS = (".sh", ".bash", ".sbatch", ".slurm", ".env")
_MOST_NAMES = 200
_BASH = "#!/bin/bash\n"


@rule(
    "V15",
    title="A start uses the names that its script sets",
    severity="warning",
    source="our own inference: a name that nothing sets, beside a like one that is set and used nowhere",
    bad=(
        _BASH
        + "export SCRIPT=train.py\nSCRIPT_ARGS='--lr 1e-4'\ntorchrun --nproc-per-node=4 $PYTHON_SCRIPT $SCRIPT_ARGS\n",
        _BASH + "TRAIN_ARGS='--lr 1e-4'\ntorchrun --nproc-per-node=4 train.py $TRAINING_ARGS\n",
    ),
    good=(
        _BASH + "export SCRIPT=train.py\nSCRIPT_ARGS='--lr 1e-4'\ntorchrun --nproc-per-node=4 $SCRIPT $SCRIPT_ARGS\n",
        _BASH + "TRAIN_ARGS='--lr 1e-4'\ntorchrun --nproc-per-node=4 train.py $TRAIN_ARGS $EXTRA_FLAGS\n",
        _BASH + "torchrun --nproc-per-node=4 train.py $JOB_STEPS\n#@ file train.py\nrun(\n    job_steps=4,\n)\n",
        _BASH + ': "${JOB_STEPS:?not set}"\njob_name=a\ntorchrun --nproc-per-node=4 train.py $JOB_STEPS\n',
    ),
)
def name_of_another(job: LintJob) -> Iterator[LintFinding]:
    """A script was changed in one of two places: what is set has another name than what is used, which is empty."""
    if job.kind not in ("shell", "sbatch") or not (job.is_batch or job.text.startswith("#!")):
        return
    text = "\n".join(each.text for each in job.sections if each.kind != "file" or each.name.endswith(_SCRIPTS))
    names = list(dict.fromkeys(_SET.findall(text)))[:_MOST_NAMES]
    if re.search(r"^[ \t]*(?:source|\.|eval)[ \t]", text, re.MULTILINE):
        exported = set(_EXPORTED.findall(text))
        names = [name for name in names if name not in exported]
    in_use = {*_USED.findall(text), *_ADDED_TO.findall(text)}
    idle = [name for name in names if not _FOR_OTHERS.match(name) and not is_platform(name) and name not in in_use]
    said: set[str] = set()
    for launch in job.launches[: look.SIBLINGS] if idle else ():
        for word in (*launch.invocation.words, *(word for outer in launch.invocation.within for word in outer.words)):
            for expansion in word.expansions:
                used = expansion.name
                if expansion.is_set is not False or expansion.default is not None or used in said or used in names:
                    continue
                meant = next((name for name in idle if _alike(name, used)), "")
                if not meant or not used or re.search(rf"\$\{{{used}:?\?", text):  # ${NAME:?}: from outside
                    continue
                said.add(used)
                yield LintFinding(
                    span=word.span,
                    summary=f"${used} is set nowhere, and {meant}, which is set, is used nowhere",
                    happens=f"${used} is empty: the start lacks what {meant} holds.",
                    fix=f"Write ${meant}.",
                )


def _alike(one: str, other: str) -> bool:
    """Two names that share a word: SCRIPT and PYTHON_SCRIPT, TRAIN_ARGS and TRAINING_ARGS."""
    words = [{part for part in re.split(r"_+", name.lower()) if len(part) > 2} for name in (one, other)]
    shared = words[0] & words[1] - {"path", "dir", "name", "file", "num", "home", "root", "the", "id", "size", "worker"}
    return bool(shared)


_RUNS = lazy_re(
    r"(?:\$\(|`)[ \t]*(?:[A-Za-z_]\w*=\S*[ \t]+)*"
    r"(?:bash|sh|python[\d.]*|torchrun|accelerate|deepspeed|srun|mpirun|(?:\./|/)\S+\.sh)[ \t]"
)
_STARTS = lazy_re(
    r"^(?:\S*/)?(?:env|bash|sh|python[\d.]*|torchrun|accelerate|deepspeed|singularity|apptainer)$|\.(?:py|sh)$"
)
_SCRIPT = (
    "#@ file run.sh\ntorchrun --nnodes=2 --nproc-per-node=4 --node-rank=$1 --master-addr=n0 --master-port=61234 t.py\n"
)


@rule(
    "Q31",
    title="A command for another machine is handed over, and not run here",
    source="bash(1), Command Substitution: $(...) runs before the command in whose words it stands",
    bad=(
        "for r in 0 1; do ssh n$r $(bash run.sh $r) & done; wait\n" + _SCRIPT,
        "ssh n1 `python train.py --rank 1`\n",
    ),
    good=(
        "for r in 0 1; do ssh n$r bash run.sh $r & done; wait\n" + _SCRIPT,
        "ssh n1 torchrun --nproc-per-node=4 $(pwd)/train.py\n",
        "head=$(srun -N1 -n1 hostname -i)\nsrun accelerate launch --main_process_ip $head train.py\n",
        "srun python train.py $(python pick_rate.py --small)\n",
    ),
)
def runs_where_it_stands(job: LintJob) -> Iterator[LintFinding]:
    """`ssh HOST $(bash run.sh)` runs run.sh on this machine, and hands what it printed to the host as a command."""
    for invocation in job.invocations if job.kind in ("shell", "sbatch") else ():
        if invocation.program not in ("ssh", "srun", "pdsh", "mpirun", "mpiexec"):
            continue
        at = next((at for at, word in enumerate(invocation.words) if at and _whole(word) and _RUNS.match(word.raw)), 0)
        word, before = invocation.words[at], invocation.words[1:at]
        is_value = bool(before) and before[-1].shown.startswith("--")
        if not at or is_value or any(_STARTS.search(each.shown) for each in before):
            continue  # what it prints is an argument of the command, or an option's value
        yield LintFinding(
            span=word.span,
            summary=f"{word.raw[:50]} runs on this machine, before {invocation.program} starts",
            happens=f"{invocation.program} gets what it printed as its command: nothing starts on the other machine.",
            fix=f"Hand the command over: {invocation.program} ... {word.raw.strip('$()`')[:60]}.",
        )


def _whole(word: Word) -> bool:
    return not word.quoted and word.raw[-1:] in (")", "`")
