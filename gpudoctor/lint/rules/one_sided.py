"""Rules of starts that only one node takes, or that each node is told otherwise: R16, P11, and of sbatch: S40."""

import re
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import allocation, look
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.rendezvous import PER_NODE

_STATIC = "torchrun --nnodes=2 --nproc-per-node=4 --node-rank=$NODE_RANK --master-addr=n01 --master-port=29501 t.py"
_GUARD = 'if [ "$NODE_RANK" -eq 0 ]; then\n  {}\n{}fi\n'


@rule(
    "R16",
    title="The start of several nodes is taken by more than one of them",
    source="bash(1), if; torch 2.13: the rendezvous waits for all of --nnodes",
    leads_to=("launcher-world-mismatch",),
    bad=(
        _GUARD.format(_STATIC, ""),
        _GUARD.format(_STATIC, "else\n  sleep 5\n"),
    ),
    good=(
        _STATIC + "\n",
        _GUARD.format(_STATIC, "else\n  " + _STATIC + "\n"),
        _GUARD.format("python prepare.py", "") + _STATIC + "\n",
    ),
)
def only_the_head_starts(job: LintJob) -> Iterator[LintFinding]:
    """A launcher that is to run on each node stands in a branch that one node takes: the others do nothing, and it
    waits for them."""
    several = [
        launch
        for launch in job.launches[: look.SIBLINGS]
        if look.traits(launch).a_node and (nodes := look.nnodes(launch)) is not None and nodes[0] > 1
    ]
    for launch in several:
        guard = launch.invocation.node_guard
        if guard is None or job.node_sections or look.host_of(launch) is not None or look.sruns(launch):
            continue
        beside = [
            other
            for other in job.launches[: look.SIBLINGS]
            if other is not launch and look.traits(other).a_node and other.invocation.node_guard != guard
        ]
        if not beside:
            yield LintFinding(
                span=look.head_span(launch),
                summary=f"{launch.entry or launch.launcher} for {look.count_text(launch)} nodes is started by node"
                f" {guard} alone",
                happens="The other nodes start nothing: it waits for them until the time-out.",
                fix="Take the launcher out of the branch, so that each node starts it with its own rank.",
            )
            return


_LOOP = (
    "for host in n01 n02; do\n  {}\n  ssh $host torchrun --nnodes=2 --nproc-per-node=4 --node-rank=$i {} t.py &\n"
    "done\nwait\n"
)


@rule(
    "P11",
    title="All hosts of a loop are told one port",
    source="bash(1), RANDOM: another number each time that it is used",
    leads_to=("master-unreachable",),
    bad=(
        _LOOP.format("PORT=$((20000 + RANDOM % 20000))", "--master-addr=n01 --master-port=$PORT"),
        _LOOP.format("PORT=$(shuf -i 20000-29999 -n 1)", "--master-addr=n01 --master-port=$PORT"),
    ),
    good=(
        "PORT=$((20000 + RANDOM % 20000))\n" + _LOOP.format("echo $host", "--master-addr=n01 --master-port=$PORT"),
        _LOOP.format("PORT=29501", "--master-addr=n01 --master-port=$PORT"),
    ),
)
def port_drawn_for_each_host(job: LintJob) -> Iterator[LintFinding]:
    """What is drawn inside of the loop is drawn for each host anew: the hosts do not agree on the head's port."""
    for launch in job.launches[: look.SIBLINGS]:
        loop, host, port = launch.invocation.in_loop, look.host_of(launch) or "", look.port(launch)
        nodes = look.nnodes(launch)
        if not loop or port is None or (nodes is not None and nodes[1] < 2) or not host:
            continue
        begins = [each.start() for each in _OPENED.finditer(job.text, 0, launch.invocation.span.start)]
        if not begins:
            continue  # of a function that a loop behind it calls
        begin = begins[-1]
        for origin in look.origins(port.word, launch.invocation):
            inside = job.text.find(origin.raw, begin, launch.invocation.span.end) >= 0
            if origin.value is None and inside and PER_NODE.search(origin.raw):
                yield LintFinding(
                    span=origin.span or port.span,
                    summary=f"{origin.raw[:60]} draws a port in each turn of the loop over the hosts",
                    happens="Each host is told another port: none but the first finds the head.",
                    fix="Draw it once, before the loop.",
                )
                return


_OPENED = lazy_re(r"^[ \t]*(?:\w+[ \t]*\|[ \t]*)?(?:for|while|until)\b|[;&|][ \t]*(?:for|while|until)\b", re.MULTILINE)
_TASKS = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gpus-per-task=4\n{}srun python train.py\n"


@rule(
    "S40",
    title="GPUs of a task are asked for with a number of tasks",
    source="slurm_opt.c of Slurm: --gpus-per-task used without either --gpus or -n/--ntasks is not allowed",
    bad=(_TASKS.format(""), _TASKS.format("#SBATCH --cpus-per-task=8\n")),
    good=(
        _TASKS.format("#SBATCH --ntasks=2\n"),
        _TASKS.format("#SBATCH --gpus=8\n"),
        _TASKS.format("#SBATCH --ntasks-per-node=1\n"),
    ),
)
def gpus_of_no_tasks(job: LintJob) -> Iterator[LintFinding]:
    """Without a number of tasks or GPUs SLURM cannot tell how many GPUs the job needs."""
    option = allocation.in_force(job, "gpus-per-task")
    if option is None or re.search(r"^#SBATCH[^\n]*\b(?:hetjob|packjob)", job.text, re.MULTILINE):
        return
    if not any(allocation.in_force(job, name) for name in ("ntasks", "gpus", "ntasks-per-node", "tasks-per-node")):
        yield LintFinding(
            span=option.span,
            severity=None if allocation.in_force(job, "nodes") else "warning",  # sbatch's own line may say the size
            summary="--gpus-per-task without --ntasks or --gpus",
            happens="sbatch refuses: --gpus-per-task used without either --gpus or -n/--ntasks is not allowed.",
            fix="Add #SBATCH --ntasks=N.",
        )
