"""Rules of the names of variables that a scheduler, a service or an MPI sets: S36, E20."""

from collections.abc import Iterator

from gpudoctor.knowledge.platform_names import FAMILIES, family_of, meant_by
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.model import LintJob, Span
from gpudoctor.lint.once import once_a_job
from gpudoctor.lint.rule import LintFinding, rule

_NAMES = "(?:" + "|".join(FAMILIES) + r")_[A-Z][A-Z0-9_]*"
_ANY = lazy_re(r"(?<!\w)" + _NAMES + r"(?!\w)")
_READ = lazy_re(r"(?<!\\)\$(?:\{#?|\()?$|\benviron(?:\[|\.get\()\s*[\"']$|\bgetenv\(\s*[\"']$|\$\(\([^)]{0,80}$")
"""What stands in front of a name that is read: in shells, manifests ($(NAME)), programs and arithmetic."""
_ASKS = lazy_re(r"\[ .*-[nzv]\b[^\]]*$|getenv\([\"']$")
_LINE_ONLY = ("#", "echo", "printf", "print(")
_HEADER = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gres=gpu:4\n#SBATCH --ntasks-per-node=1\n"
_HEAD = 'export HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)\n'
_C10D = (
    "torchrun --nnodes=2 --nproc-per-node=4 --rdzv-id=$SLURM_JOB_ID --rdzv-backend=c10d --rdzv-endpoint=$HEAD:29400"
    " train.py\n"
)
_SKY = (
    "name: t\nnum_nodes: 2\nresources:\n  accelerators: A100:8\nrun: |\n"
    "  torchrun --nnodes=$SKYPILOT_NUM_NODES --nproc_per_node={} --node_rank=$SKYPILOT_NODE_RANK"
    ' --master_addr=$(echo "$SKYPILOT_NODE_IPS" | head -n1) --master_port=8008 train.py\n'
)


@rule(
    "S36",
    title="A variable of SLURM is written as SLURM writes it",
    source="sbatch(1), srun(1), OUTPUT ENVIRONMENT VARIABLES, and the names in Slurm's source (24.11)",
    bad=(
        _HEADER + "export WORLD_SIZE=$((SLURM_NNODES * 4)) N=$SLURM_GPUS_ON_NODES\n" + _HEAD + "srun " + _C10D,
        _HEADER + "HEAD=$(scontrol show hostnames $SLURM_JOB_NODE_LIST | head -n1)\nsrun " + _C10D,
        _HEADER + "export WORLD_SIZE=$((SLURM_NUM_NODES * 4))\n" + _HEAD + "srun " + _C10D,
    ),
    good=(
        _HEADER + "export N=$SLURM_GPUS_ON_NODE\n" + _HEAD + "srun " + _C10D,
        _HEADER + _HEAD + "export N=${SLURM_GPUS_ON_NODES:-4}\nsrun " + _C10D,
        _HEADER + "cd $SLURM_MYSITE_FOLDER\n" + _HEAD + "srun " + _C10D,
        _HEADER + "export SLURM_WORLD_SIZE=8\necho $SLURM_WORLD_SIZE\n" + _HEAD + "srun " + _C10D,
    ),
)
def variable_that_slurm_does_not_set(job: LintJob) -> Iterator[LintFinding]:
    """A name that is nearly one of SLURM's is empty: what is counted, named or cut by it is too."""
    yield from _unset(job, slurm=True)


@rule(
    "E20",
    title="A variable of a service or an MPI is one that it sets",
    source="the names of SkyPilot, dstack, Open MPI, MVAPICH2, Horovod, LeaderWorkerSet and torchrun's PET_*:"
    " gpudoctor/knowledge/platform_names.py",
    bad=(
        _SKY.format("$SKYPILOT_NUM_GPU_PER_NODE"),
        "type: task\nname: t\nnodes: 2\ncommands:\n  - torchrun --nproc-per-node=8 --nnodes=$DSTACK_NUM_NODES"
        " --node-rank=$DSTACK_NODE_RANK --master-addr=$DSTACK_MASTER_NODE_IP --master-port=29500 train.py\n"
        "resources:\n  gpu: H100:8\n  shm_size: 64GB\n",
        "mpirun -np 8 --bind-to none python train.py\n#@ file train.py\nimport os\n"
        "rank = int(os.environ['OMPI_COMM_WORLD_GLOBAL_RANK'])\n",
    ),
    good=(
        _SKY.format("$SKYPILOT_NUM_GPUS_PER_NODE"),
        _SKY.format("${SKYPILOT_NUM_GPU_PER_NODE:-8}"),
        "mpirun -np 8 --bind-to none python train.py\n#@ file train.py\nimport os\n"
        "rank = int(os.environ['OMPI_COMM_WORLD_RANK'])\n",
    ),
)
def variable_that_no_service_sets(job: LintJob) -> Iterator[LintFinding]:
    """These families are whole: a count, rank or address of theirs that is not among them is empty in a shell, and a
    KeyError in a program."""
    yield from _unset(job, slurm=False)


def _unset(job: LintJob, *, slurm: bool) -> Iterator[LintFinding]:
    if job.has_unread_source or (slurm and not job.is_batch and not any(look.sruns(each) for each in job.launches)):
        return
    for name, span in reads(job).items():
        meant = meant_by(name) if (family_of(name) == "SLURM") is slurm else ""
        if meant:
            yield LintFinding(
                span=span,
                summary=f"{'SLURM' if slurm else 'nobody'} sets {'no ' if slurm else ''}{name}; {meant} is"
                f" {'nearly the same name' if slurm else 'one that is set'}",
                happens=f"${name} is empty, or a KeyError: what is made of it is wrong or empty too.",
                fix=f"Write {meant}.",
            )


@once_a_job
def reads(job: LintJob) -> dict[str, Span]:
    """Where each variable of these families is read first, that the text neither sets nor gives a default, asks for or
    speaks of anywhere."""
    places: dict[str, Span] = {}
    others: set[str] = {*job.facts.variables}
    for match in _ANY.finditer(job.text):
        name = match[0]
        line = job.text.rfind("\n", 0, match.start()) + 1
        before, behind = (
            job.text[max(line, match.start() - 90) : match.start()],
            job.text[match.end() : match.end() + 8],
        )
        if before.lstrip().startswith(_LINE_ONLY) or name in others:
            continue
        soft = "{" in before[-3:] and behind[:1] in (":", "-", "=", "+", "?")
        told = behind.startswith(("']=", "'] =", '"]=', '"] =')) or (".get(" in before and "," in behind)
        if soft or told or _ASKS.search(before) or not _READ.search(before):
            others.add(name)
        elif len(places) < 200:
            number = job.text.count("\n", 0, match.start()) + 1
            places.setdefault(name, Span(match.start(), match.end(), number))
    return {name: span for name, span in places.items() if name not in others}
