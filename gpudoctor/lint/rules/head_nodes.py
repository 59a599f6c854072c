"""Rules of which node a script takes for the head: A17, A18, and of how many it counts: H08."""

import re
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.model import Expansion, LintJob, LintLaunch
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.node_tables import hosts_of

_HEADER = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gres=gpu:4\n"
_STATIC = (
    "srun bash -c 'torchrun --nnodes=2 --nproc-per-node=4 --node-rank=$SLURM_NODEID --master-addr=$HEAD"
    " --master-port=29501 train.py'\n"
)
_C10D = (
    "srun torchrun --nnodes=2 --nproc-per-node=4 --rdzv-id=7 --rdzv-backend=c10d --rdzv-endpoint=$HEAD:29400 train.py\n"
)
_FIRST = 'export HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)\n'
_LIST = lazy_re(r"\$\{?SLURM_(?:JOB_|STEP_)?NODELIST")
_UNFOLDS = lazy_re(r"scontrol|nodeset|hostlist|sinfo|squeue|srun|python|pdsh|clush")
_CUT = lazy_re(r"\bcut\b|\bawk\b|\bsed\b|\btr\b|%%?[,\[]|\bhead\b|##?")
_LAST = lazy_re(
    r"scontrol\s+show\s+hostnames?\b[^|]*\|\s*(?:tail\s+-n?\s*1|sed\s+-n\s+['\"]?\$p|sort\s+-r\s*\|\s*head)"
)


def _origins(launch: LintLaunch) -> Iterator[Expansion]:
    address = look.master(launch)
    if address is not None:
        yield from look.origins(address.word, launch.invocation)
    else:
        setting = launch.invocation.settings.get("MASTER_ADDR")
        if setting is not None and setting.exported:
            yield from look.origins(setting.word, launch.invocation)


@rule(
    "A17",
    title="The head's name is cut out of an unfolded list",
    severity="warning",
    source="scontrol(1), show hostnames: SLURM writes the nodes of a job as gpu[014-017,020]",
    leads_to=("master-unreachable",),
    bad=(
        _HEADER + "export HEAD=$(echo $SLURM_JOB_NODELIST | cut -d, -f1)\n" + _C10D,
        _HEADER + "export HEAD=${SLURM_NODELIST%%,*}\n" + _C10D,
    ),
    good=(
        _HEADER + _FIRST + _C10D,
        _HEADER + "export HEAD=$(scontrol show hostnames $SLURM_JOB_NODELIST | tr '\\n' ' ' | cut -d' ' -f1)\n" + _C10D,
        _HEADER.replace("nodes=2", "nodes=1")
        + "export MASTER_ADDR=$SLURM_JOB_NODELIST\ntorchrun --standalone --nproc-per-node=4 train.py\n",
    ),
)
def head_of_a_folded_list(job: LintJob) -> Iterator[LintFinding]:
    """Nodes whose names differ by a number alone are written together, gpu[014-017]: what stands before the first comma
    is then no name of a node."""
    if (look.batch_nodes(job) or 2) < 2:
        return
    for launch in job.launches[: look.SIBLINGS]:
        for origin in _origins(launch):
            if _LIST.search(origin.raw) and not _UNFOLDS.search(origin.raw) and _CUT.search(origin.raw):
                if origin.raw.count("sed") and re.search(r"\[|tr -d", origin.raw):
                    continue  # it takes the brackets apart by itself
                yield LintFinding(
                    span=origin.span or look.head_span(launch),
                    summary=f"the head is cut out of SLURM's list of nodes as it is written ({origin.raw[:60]})",
                    happens="The list is folded, gpu[014-017]: the part before the comma is no host's name, unless the"
                    " nodes' names have nothing in common.",
                    fix='Write $(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1).',
                )
                return


@rule(
    "A18",
    title="The head is the node that has rank 0",
    source="srun(1): SLURM_NODEID counts in the order of the node list; torch: rank 0 opens the store",
    leads_to=("master-unreachable",),
    bad=(
        _HEADER + _FIRST.replace("head -n1", "tail -n 1") + _STATIC,
        _HEADER + _FIRST.replace("head -n1", "tail -1") + _STATIC,
        _HEADER + "#SBATCH --nodelist=n[03-04]\nexport HEAD=n04\n" + _STATIC,
    ),
    good=(_HEADER + _FIRST + _STATIC, _HEADER + _FIRST.replace("head -n1", "tail -n 1") + _C10D),
)
def head_is_the_last_node(job: LintJob) -> Iterator[LintFinding]:
    """SLURM numbers the nodes in the order of the list: the first one has SLURM_NODEID 0 and SLURM_PROCID 0. Where the
    last one's address is told, rank 0 opens its store on another node than the one that all look at."""
    for launch in job.launches[: look.SIBLINGS]:
        rank = look.value(launch, "node-rank")
        by_slurm = rank is not None and re.search(r"SLURM_(?:NODEID|PROCID)", rank.shown)
        own = launch.invocation.settings.get("RANK")
        by_task = own is not None and "SLURM_PROCID" in own.word.shown
        if look.is_dynamic(launch) or not (by_slurm or by_task) or (look.batch_nodes(job) or 2) < 2:
            continue
        address = look.master(launch)
        if address is not None and (named := _not_the_first(job, address.sure or "")):
            yield LintFinding(
                span=address.span,
                summary=f"the address is {address.sure}, and rank 0 is on {named}, the first node of the list",
                happens="Rank 0 opens the store on its own node, and the others wait at the other one.",
                fix=f"Write {named}, or take the first node of the job.",
            )
            return
        last = next((origin for origin in _origins(launch) if _LAST.search(origin.raw)), None)
        if last is not None:
            yield LintFinding(
                span=last.span or look.head_span(launch),
                summary="the address is the last node's, and rank 0 is on the first",
                happens="Rank 0 opens the store on its own node, and the others wait at the last one.",
                fix="Take the first node: head -n1.",
            )
            return


def _not_the_first(job: LintJob, host: str) -> str:
    """The first of the nodes that the header names, where the host is another one of them. SLURM sorts the list."""
    option = job.sbatch.get("nodelist")
    if option is None or option.ignored or not option.value or not host:
        return ""
    names = hosts_of(option.value)
    first = min(names, default="")
    return first if host in names and host != first and len(names) == look.batch_nodes(job) else ""


_PBS = "#!/bin/bash\n#PBS -l select=2:ncpus=8:ngpus=4:mpiprocs={}\ncd $PBS_O_WORKDIR\n"
_COUNT = "N=$(wc -l < $PBS_NODEFILE)\nHEAD=$(head -n1 $PBS_NODEFILE)\nmpiexec -n $N --ppn 1 "
_RUN = "torchrun --nnodes=$N --nproc-per-node=4 --rdzv-id=7 --rdzv-backend=c10d --rdzv-endpoint=$HEAD:29400 train.py\n"
_LINES = lazy_re(r"(?:wc\s+-l|cat\s+\"?\$\{?PBS_NODEFILE\}?\"?\s*\|\s*wc)")
_SHARES = lazy_re(r"mpiprocs=(\d{1,4})|nodes=\d+:ppn=(\d{1,4})", re.ASCII)


@rule(
    "H08",
    title="PBS's list of nodes is counted by nodes",
    source="pbs_resources(7B): PBS_NODEFILE has a line for each of a chunk's mpiprocs (ppn)",
    leads_to=("launcher-world-mismatch",),
    bad=(
        _PBS.format(4) + _COUNT + _RUN,
        _PBS.format(4) + _COUNT.replace("wc -l < $PBS_NODEFILE", "cat $PBS_NODEFILE | wc -l") + _RUN,
    ),
    good=(
        _PBS.format(1) + _COUNT + _RUN,
        _PBS.format(4) + _COUNT.replace("wc -l < $PBS_NODEFILE", "sort -u $PBS_NODEFILE | wc -l") + _RUN,
    ),
)
def lines_of_the_node_file(job: LintJob) -> Iterator[LintFinding]:
    """With mpiprocs=4 (or ppn=4) each node stands four times in PBS_NODEFILE: its lines are processes and not nodes."""
    header = "\n".join(re.findall(r"^#PBS[^\n]*", job.text, re.MULTILINE))
    match = _SHARES.search(header)
    share = int(match[1] or match[2]) if match is not None else 1
    if share < 2:
        return
    for launch in job.launches[: look.SIBLINGS]:
        given = look.value(launch, "nnodes")
        if given is None or not look.traits(launch).a_node:
            continue
        for origin in look.origins(given.word, launch.invocation):
            if (
                "PBS_NODEFILE" in origin.raw
                and _LINES.search(origin.raw)
                and not re.search(r"uniq|sort -u", origin.raw)
            ):
                yield LintFinding(
                    span=origin.span or given.span,
                    summary=f"{given.written} counts lines of PBS_NODEFILE, in which a node stands {share} times",
                    happens=f"The launchers wait for {share} times as many nodes as there are, until the time-out.",
                    fix="Count the nodes: $(sort -u $PBS_NODEFILE | wc -l).",
                )
                return
