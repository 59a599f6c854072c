"""Rules of where the head's address comes from: A09, A10, A11."""

import re
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.look import is_loopback, number, value
from gpudoctor.lint.model import Expansion, LintJob, LintLaunch
from gpudoctor.lint.rule import Edit, Example, LintFinding, rule
from gpudoctor.lint.rules.addresses import BATCH, C10D, GOOD, HEAD, SRUN, STATIC, addressed

_ELSEWHERE = lazy_re(r"\b(?:srun|ssh|pdsh|clush|scontrol|dig|getent|host|nslookup|head_?node|kubectl)\b")
_OWN_NAME = lazy_re(
    r"\bhostname\b|^\$\{?(?:HOSTNAME|SLURMD_NODENAME)\b|\buname -n\b|\bhostname -[Iifs]|\bip (?:-\S+ )*addr"
)
_LOCAL_DEFAULT = lazy_re(r"\|\|\s*(?:echo|printf)\s+[\"']?(localhost|127\.0\.0\.1|::1)\b")


@rule(
    "A09",
    title="A multi-node script does not fall back to localhost",
    source="many threads",
    leads_to=("master-addr-loopback",),
    bad=(
        "#@ every node\n" + STATIC.format("$NODE_RANK", "${MASTER_IP:-localhost}"),
        "HEAD=$(cat head.txt 2>/dev/null || echo localhost)\n" + C10D.format("$HEAD:29400"),
        "torchrun --nnodes=4 --nproc-per-node=8 --rdzv-backend=c10d --rdzv-endpoint=${HEAD:=127.0.0.1}:2940 t.py\n",
    ),
    good=(
        STATIC.format("$NODE_RANK", "${MASTER_ADDR:?}"),
        "torchrun --nnodes=${NNODES:-1} --nproc-per-node=4 --node-rank=${NODE_RANK:-0}"
        " --master-addr=${MASTER_ADDR:-localhost} --master-port=29501 train.py\n",
        "HEAD=10.20.0.11\n" + STATIC.format("$NODE_RANK", "${HEAD:-localhost}"),
    ),
)
def falls_back_to_localhost(job: LintJob) -> Iterator[LintFinding]:
    """`${X:-localhost}` and `|| echo localhost` hide that the head's address is missing: the job then waits on every
    node for itself, instead of ending with a message."""
    for world, given in addressed(job):
        if not look.is_multi(job, world) or look.from_platform(job, world.first):
            continue
        for launch, address in given:
            nodes = value(launch, "nnodes")
            if nodes is None or nodes.sure is None:
                continue
            for origin in look.origins(address.word, launch.invocation):
                fallback = origin.default or next(iter(_LOCAL_DEFAULT.findall(origin.raw)), "")
                if (origin.name and origin.is_set is True) or not is_loopback(fallback.strip("\"'")):
                    continue
                if origin.name and (set_by := launch.invocation.settings.get(origin.name)) and set_by.word.text:
                    continue
                strict = f"${{{origin.name}:?}}" if origin.name else ""
                yield LintFinding(
                    span=origin.span or address.span,
                    summary=f"{address.written} falls back to {fallback} in a start of {look.count_text(launch)} nodes",
                    happens="Where the address is missing, every node waits for itself until a time-out, without a word"
                    " on the reason.",
                    fix=f"Write {strict}: the script then ends with a message." if strict
                    else "Let the script end when the address is missing (|| exit 1).",
                    edits=(Edit(origin.span, strict),) if strict and origin.span is not None else (),
                )  # fmt: skip


@rule(
    "A10",
    title="The head's address is found out once, not on every node",
    source="our inference from A02, which is measured",
    leads_to=("master-unreachable",),
    bad=(
        "#@ every node\n" + STATIC.format("$NODE_RANK", "$(hostname -I | awk '{print $1}')"),
        BATCH + SRUN.format("$(hostname)"),
        "#@ node 0\n" + C10D.format("$(hostname):29400") + "#@ node 1\n" + C10D.format("$(hostname):29400"),
    ),
    good=(
        BATCH + "export MASTER_ADDR=$(hostname)\n" + SRUN.format("$MASTER_ADDR"),
        "#@ node 0\n" + STATIC.format(0, "$(hostname)") + "#@ node 1\n" + STATIC.format(1, "10.20.0.11"),
        "deepspeed --hostfile hosts --master_addr $(hostname -I | awk '{print $1}') t.py\n#@ file hosts\nn1 slots=4\n"
        "n2 slots=4\n",
        Example(
            "torchrun --nnodes=1 --nproc-per-node=4 --master-addr=$(hostname) --master-port=2951 t.py\n", "nodes=1"
        ),
    ),
)
def own_name_as_master(job: LintJob) -> Iterator[LintFinding]:
    """`$(hostname)`, `$HOSTNAME` and `$(hostname -I)` are each node's own name where each node evaluates them: in a
    script that every node runs, and inside `srun bash -c '...'`. In the batch script they are the head's."""
    for world, given in addressed(job):
        if not look.is_multi(job, world) or look.from_platform(job, world.first):
            continue
        for launch, address in given:
            node = look.node_of(job, launch)
            if node == 0 or number(value(launch, "node-rank")) == 0 or launch.invocation.in_loop:
                continue
            if look.traits(launch).fans_out and not launch.option("no-ssh", "node-rank"):
                continue  # it is started once, and starts the other nodes itself
            for origin in look.origins(address.word, launch.invocation):
                # the shell that calls srun or mpirun runs once
                once = origin.where != "task" and _by_tasks(launch)
                if once or origin.where == "batch" or not _OWN_NAME.search(origin.raw) or _ELSEWHERE.search(origin.raw):
                    continue
                if _guarded(job, origin):
                    continue
                in_srun = bool(look.sruns(launch))
                yield LintFinding(
                    span=origin.span or address.span,
                    summary=f"{address.written} is {origin.raw}: on every node another one",
                    happens="Every node takes its own address for the head's: nobody meets anybody; after 60 s (c10d)"
                    " or 600 s there is a time-out.",
                    fix=f"Before srun, in the batch script: export MASTER_ADDR={HEAD}; in the task: $MASTER_ADDR."
                    if in_srun
                    else "Find the address out on the head, and give that to all nodes.",
                )
                break


def _by_tasks(launch: LintLaunch) -> bool:
    return bool(launch.around) or (look.traits(launch).bare and launch.launcher != "python")


def _guarded(job: LintJob, expansion: Expansion) -> bool:
    """The assignment stands in an `if` or after `&&`, `||`: maybe one node only takes it."""
    if expansion.span is None:
        return False
    start = job.text.rfind("\n", 0, expansion.span.start) + 1
    line = job.text[start : expansion.span.start]
    return bool(re.search(r"&&|\|\||\bthen\b|\]\s*;|\bif\b", line)) or line[:1] in (" ", "\t")


_SUBMITTED = ("SLURM_SUBMIT_HOST", "PBS_O_HOST", "LSB_SUB_HOST")


@rule(
    "A11",
    id="slurm-launch-node-address",
    title="The head is the first node of the job, not where srun or sbatch was called",
    severity="warning",
    source="measured with Slurm 22.05; pith-train pull request 47",
    leads_to=("master-unreachable",),
    bad=(
        BATCH + "export MASTER_ADDR=$SLURM_LAUNCH_NODE_IPADDR\n" + SRUN.format("$MASTER_ADDR"),
        BATCH + SRUN.format("$SLURM_LAUNCH_NODE_IPADDR"),
        BATCH + "export HEAD=$SLURM_SUBMIT_HOST\n" + SRUN.format("$HEAD"),
    ),
    good=(BATCH + f"export MASTER_ADDR={HEAD}\n" + SRUN.format("$MASTER_ADDR"), GOOD),
)
def head_is_where_it_was_submitted(job: LintJob) -> Iterator[LintFinding]:
    """SLURM_LAUNCH_NODE_IPADDR is the address from which srun was called: the login node, where srun is called there,
    and it is empty in the batch script. SLURM_SUBMIT_HOST, PBS_O_HOST and LSB_SUB_HOST are the login node."""
    for _world, given in addressed(job):
        for launch, address in given:
            for origin in look.origins(address.word, launch.invocation):
                if origin.name in _SUBMITTED:
                    yield LintFinding(
                        span=origin.span or address.span,
                        summary=f"{address.written} is {origin.raw}: the machine on which the job was submitted",
                        happens="No rank runs on a login node: nobody listens there, and all ranks time out.",
                        fix=f"Use the first node of the job: MASTER_ADDR={HEAD}."
                        if origin.name == "SLURM_SUBMIT_HOST"
                        else "Use the first node of the job.",
                    )
                    break
                if origin.name != "SLURM_LAUNCH_NODE_IPADDR":
                    continue
                batch = origin.where == "batch"
                yield LintFinding(
                    span=origin.span or address.span,
                    summary=f"{address.written} is {origin.raw}: the address of the node that called srun",
                    happens="It is empty in the batch script." if batch
                    else "From a login node srun hands over the login node's address: nobody listens there.",
                    fix=f"Use the first node of the job, before srun: MASTER_ADDR={HEAD}.",
                    edits=(Edit(origin.span, HEAD),) if batch and origin.span is not None else (),
                )  # fmt: skip
                break
