"""Rules of heterogeneous jobs of SLURM: S45."""

import re
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.rule import LintFinding, rule

_HEADER = (
    "#!/bin/bash\n#SBATCH --nodes=1 --ntasks-per-node=1 --gres=gpu:8\n#SBATCH hetjob\n"
    "#SBATCH --nodes=2 --ntasks-per-node=1 --gres=gpu:8\n"
)
_START = (
    "HEAD=$(scontrol show hostnames ${} | head -n1)\nsrun --het-group={} torchrun --nnodes=2 --nproc_per_node=8"
    " --rdzv_id=$SLURM_JOB_ID --rdzv_backend=c10d --rdzv_endpoint=$HEAD:29519 train.py\n"
)
_LIST = lazy_re(r"\bSLURM_(?:JOB_)?NODELIST(?:_(?:HET|PACK)_GROUP_(\d+))?\b")


@rule(
    "S45",
    title="The head of a component's training is one of its nodes",
    source="slurm, Heterogeneous Jobs: SLURM_JOB_NODELIST is the first component's, ..._HET_GROUP_n that of n;"
    " NeMo-Skills#372",
    leads_to=("master-unreachable",),
    bad=(
        _HEADER + _START.format("SLURM_JOB_NODELIST", 1),
        _HEADER + _START.format("SLURM_JOB_NODELIST_HET_GROUP_0", 1),
    ),
    good=(
        _HEADER + _START.format("SLURM_JOB_NODELIST_HET_GROUP_1", 1),
        _HEADER.replace("nodes=1", "nodes=2") + _START.format("SLURM_JOB_NODELIST", 0),
    ),
)
def head_of_another_component(job: LintJob) -> Iterator[LintFinding]:
    """In a batch script SLURM_JOB_NODELIST names the nodes of the first component alone. A step in another one that
    takes its head from there waits for a node on which nothing of it runs."""
    if not re.search(r"^#SBATCH[ \t]+(?:hetjob|packjob)\b", job.text, re.MULTILINE):
        return
    for launch in job.launches[: look.SIBLINGS]:
        srun = next((around for around in reversed(look.sruns(launch))), None)
        option = srun.option("het-group") if srun is not None else None
        group = look.whole(option.value.text) if option is not None and option.value is not None else None
        head = look.master(launch)
        if option is None or group is None or head is None:
            continue
        for origin in look.origins(head.word, launch.invocation):
            match = _LIST.search(origin.raw)
            if match is None or origin.where == "task" or int(match[1] or 0) == group:
                continue
            right = f"SLURM_JOB_NODELIST_HET_GROUP_{group}"
            yield LintFinding(
                span=origin.span or head.span,
                summary=f"the head is taken from {match[0]}, the nodes of component {match[1] or 0}; srun starts it in"
                f" component {group}",
                happens="None of its nodes is the head: all of them wait for it, and time out.",
                fix=f"Take the head from ${right}.",
            )
            break
