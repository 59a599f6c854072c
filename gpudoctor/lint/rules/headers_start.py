"""Rules of what starts under a header of PBS, LSF, PJM or Grid Engine: H04 to H07."""

import re
from collections.abc import Iterator

from gpudoctor.knowledge.wording import counted
from gpudoctor.lint import allocation, headers, look, processes
from gpudoctor.lint.model import LintJob, LintLaunch
from gpudoctor.lint.rule import LintFinding, rule

_PBS = (
    "#!/bin/bash\n#PBS -l select={}:ncpus=32:ngpus=4:mpiprocs=1\n#PBS -l walltime=12:00:00\ncd $PBS_O_WORKDIR\n"
    "export MASTER=$(head -n1 $PBS_NODEFILE)\n"
)
_ONE = "torchrun --standalone --nproc-per-node=4 train.py\n"
_TWO = (
    "torchrun --nnodes=2 --nproc-per-node=4 --rdzv-id=$PBS_JOBID --rdzv-backend=c10d --rdzv-endpoint=$MASTER:29400"
    " train.py\n"
)
_LIMITS = {
    "PBS": ("walltime", "seconds"),
    "Grid Engine": ("h_rt", "seconds"),
    "PJM": ("elapse", "seconds"),
    "LSF": ("-W", "minutes"),
}
_HOURS = frozenset(("4", "8", "12", "16", "24", "36", "48", "72", "96", "120", "168"))
"""Plain numbers that people mean as hours, as for SLURM."""
_REACHES = ("mpirun", "mpiexec", "pbsdsh", "pbs_tmrsh", "ssh", "pdsh", "clush", "parallel", "blaunch", "aprun", "qrsh",
            "horovodrun", "deepspeed", "jsrun", "lsrun", "pjrsh", "srun")  # fmt: skip


@rule(
    "H04",
    title="The time limit of a header says its unit",
    severity="warning",
    source="pbs_resources(7B): a number is seconds; sge_types(1), pjsub(1): the same; bsub -W: minutes",
    bad=(_PBS.format(1).replace("12:00:00", "24") + _ONE, "#!/bin/bash\n#BSUB -n 4\n#BSUB -W 48\n" + _ONE),
    good=(_PBS.format(1) + _ONE, _PBS.format(1).replace("12:00:00", "86400") + _ONE),
)
def limit_without_unit(job: LintJob) -> Iterator[LintFinding]:
    """walltime=24 is 24 seconds, and -W 24 is 24 minutes: a job that was to run for hours is ended before its first
    checkpoint."""
    for option in headers.options(job):
        name, unit = _LIMITS[option.kind.name]
        value = option.value or ""
        amount = value if name == option.name else "".join(re.findall(rf"(?:^|,){name}=([^,]+)", value)[-1:])
        if option.late or amount not in _HOURS:
            continue
        right = f"{amount}:00:00" if unit == "seconds" else f"{amount}:00"
        yield LintFinding(
            span=option.span,
            summary=f"{name}{' ' if name == '-W' else '='}{amount} is {amount} {unit}, and not hours",
            happens=f"{option.kind.name} ends the job at that time.",
            fix=f"Write {right} for hours.",
        )


@rule(
    "H05",
    title="The job goes to the folder of its files",
    severity="warning",
    source="qsub(1B): a job begins in the home folder, and PBS_O_WORKDIR is where it was submitted; qsub(1) -cwd",
    bad=(
        _PBS.format(1).replace("cd $PBS_O_WORKDIR\n", "") + _ONE,
        "#!/bin/bash\n#$ -l h_rt=12:00:00\n#$ -pe smp 8\n" + _ONE,
    ),
    good=(_PBS.format(1) + _ONE, "#!/bin/bash\n#$ -cwd\n#$ -l h_rt=12:00:00\n" + _ONE),
)
def job_begins_at_home(job: LintJob) -> Iterator[LintFinding]:
    """PBS and Grid Engine start a script in the home folder: a file that is named without its folder is not found."""
    given = [
        option for option in headers.options(job) if not option.late and option.kind.name in ("PBS", "Grid Engine")
    ]
    if not given or any(option.name in ("-cwd", "-wd", "-d", "-w") for option in given):
        return
    if re.search(r"\b(?:cd|pushd)\s|--chdir|WORKDIR|--?(?:pwd|wdir|wd)\b", job.text):
        return
    for launch in job.launches:
        script = launch.script
        if (
            launch.module
            or script is None
            or script.text is None
            or not re.fullmatch(r"(?:\./)?[\w./-]+\.py", script.text)
        ):
            continue
        if script.text.startswith("/") or (
            launch.invocation.within[:1] and "docker" in launch.invocation.within[0].program
        ):
            continue
        place = "$PBS_O_WORKDIR" if given[0].kind.name == "PBS" else "$SGE_O_WORKDIR"
        yield LintFinding(
            span=script.span,
            summary=f"{script.text} is looked for in the home folder, where {given[0].kind.name} starts the script",
            happens="can't open file: No such file or directory, unless the job was submitted from there.",
            fix=f"Write cd {place} before it" + ("." if "PBS" in place else ", or #$ -cwd in the header."),
        )
        return


@rule(
    "H06",
    title="A node of the header has a GPU for each of its ranks",
    source="pbs_resources(7B): ngpus is for each chunk; torch: invalid device ordinal",
    bad=(
        _PBS.format(1).replace("ngpus=4", "ngpus=1") + _ONE,
        "#!/bin/bash\n#PJM -L node=1,gpu=2,elapse=12:00:00\n" + _ONE,
        '#!/bin/bash\n#BSUB -n 2\n#BSUB -R "span[ptile=1]"\n#BSUB -R "rusage[ngpus_physical=2]"\n#BSUB -W 60\n' + _ONE,
        _PBS.format(2).replace("mpiprocs=1", "mpiprocs=8")
        + "mpiexec -n 16 --ppn 8 bash -c 'RANK=$PMI_RANK LOCAL_RANK=$PMI_LOCAL_RANK WORLD_SIZE=16 python train.py'\n",
        _PBS.format(2) + "mpiexec -n 16 --ppn 8 python train.py\n",
    ),
    good=(_PBS.format(1) + _ONE, _PBS.format(1) + _ONE.replace("node=4", "node=gpu")),
)
def header_asks_for_fewer_gpus(job: LintJob) -> Iterator[LintFinding]:
    """The job sees the GPUs that it asked for; a rank above them has none."""
    asked = headers.allocation(job)
    if asked is None or not asked.gpus_per_node:
        return
    for launch in job.launches:
        of_chunk = _of_a_chunk(launch, asked.asked.value or "")
        ranks = processes.per_node(job, launch) if look.traits(launch).a_node else of_chunk
        may_share = asked.kind.name == "PBS" and not of_chunk and look.nnodes(launch) in (None, (1, 1))
        chunks = asked.nodes if asked.nodes and may_share else 1  # chunks of PBS may be on one host
        if ranks and ranks > asked.gpus_per_node * (chunks or 1) and not processes.on_cpu(launch):
            yield LintFinding(
                span=launch.invocation.words[0].span,
                summary=f"{ranks} ranks start on a node, and the header asks for {counted(asked.gpus_per_node, 'GPU')}",
                happens="CUDA error: invalid device ordinal, at the first rank that has none.",
                fix=f"Ask for {ranks} GPUs in line {asked.asked.span.line}, or start {asked.gpus_per_node} ranks.",
            )
            return
        np = launch.option("np") if launch.launcher == "mpirun" else None
        there, tasks = (
            asked.gpus_per_node * (asked.nodes or 0),
            allocation.whole(allocation.resolved(job, np.value)) if np else None,
        )
        if np is not None and tasks and tasks > there > 0 and not processes.on_cpu(launch):
            yield LintFinding(
                span=np.span,
                severity="warning",
                summary=f"{tasks} processes start, and the header asks for {there} GPUs in all"
                f" (line {asked.asked.span.line}: {asked.nodes} times {asked.gpus_per_node})",
                happens="Where each process trains on a GPU of its own, those beyond find none: invalid device ordinal,"
                " or NCCL's Duplicate GPU detected.",
                fix=f"Start {there} processes, or ask for {tasks} GPUs.",
            )
            return


def _of_a_chunk(launch: LintLaunch, value: str) -> int | None:
    """Processes of MPI in a chunk of PBS (mpiprocs), where each of them is a rank of torch."""
    match = re.search(r":mpiprocs=(\d{1,4})\b", value, re.ASCII)
    ranked = launch.launcher == "mpirun" and "RANK" in launch.invocation.settings
    return int(match[1]) if match is not None and ranked else None


@rule(
    "H07",
    title="A start on several nodes is started on each of them",
    source="qsub(1B), pjsub(1): the script runs on the first node of the job; mpiexec, pbsdsh or ssh reach the others",
    bad=(
        _PBS.format(2) + _TWO,
        _PBS.format(2) + _TWO.replace("torchrun", "python -m torch.distributed.run"),
        "#!/bin/bash\n#PBS -l nodes=gpu06:ppn=24+gpu07:ppn=24\ncd $PBS_O_WORKDIR\n" + _TWO,
        '#!/bin/bash\n#BSUB -n 2\n#BSUB -R "span[ptile=1]"\n#BSUB -gpu num=4\n#BSUB -W 60\n' + _TWO,
    ),
    good=(
        _PBS.format(2) + "mpiexec --ppn 1 " + _TWO,
        _PBS.format(2) + "for h in $(sort -u $PBS_NODEFILE); do\n  ssh $h \"cd $PBS_O_WORKDIR; " + _TWO.strip()
        + '" &\ndone\nwait\n',
        _PBS.format(1) + _ONE,
    ),
)  # fmt: skip
def only_the_first_node_starts(job: LintJob) -> Iterator[LintFinding]:
    """The batch shell of PBS and PJM is on the first node, as SLURM's is."""
    asked = headers.allocation(job)
    if asked is None or (asked.nodes or 1) < 2 or any(invocation.program in _REACHES for invocation in job.invocations):
        return
    for launch in job.launches:
        if look.traits(launch).a_node and _several(launch) and not look.behind_unknown(launch):
            yield LintFinding(
                span=launch.invocation.words[0].span,
                summary=f"{launch.entry or launch.launcher} runs on the first of {asked.nodes} nodes only",
                happens="The rendezvous waits for the other nodes, and ends at its time-out.",
                fix="Start it once on each node: mpiexec with one process a node, pbsdsh, or ssh for each host.",
            )
            return


def _several(launch: LintLaunch) -> bool:
    nodes = look.nnodes(launch)
    return nodes is not None and nodes[0] > 1
