"""Rules of the head's address: A01, A02, A03, A05, A09, A10, A11."""

import ipaddress
import re
from collections.abc import Iterator

from gpudoctor.lint import look
from gpudoctor.lint.edits import replace_piece
from gpudoctor.lint.look import Value, World, is_loopback, label, nnodes, number, value
from gpudoctor.lint.model import Expansion, Job, Launch
from gpudoctor.lint.rule import Edit, Example, Finding, rule

_STATIC = "torchrun --nnodes=2 --nproc-per-node=4 --node-rank={} --master-addr={} --master-port=61234 train.py\n"
_C10D = "torchrun --nnodes=2 --nproc-per-node=4 --rdzv-id=7 --rdzv-backend=c10d --rdzv-endpoint={} train.py\n"
_GOOD = "#@ node 0\n" + _STATIC.format(0, "10.20.0.11") + "#@ node 1\n" + _STATIC.format(1, "10.20.0.11")
_HEAD = '$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)'
_BATCH = (
    "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gres=gpu:4\n#SBATCH --cpus-per-task=8\n"
)
_SRUN = (
    "srun --cpus-per-task=8 bash -c 'torchrun --nnodes=$SLURM_NNODES --node-rank=$SLURM_NODEID --nproc-per-node=4"
    " --master-addr={} --master-port=61234 train.py'\n"
)
_ELSEWHERE = re.compile(r"\b(?:srun|ssh|pdsh|clush|scontrol|dig|getent|host|nslookup|head_?node|kubectl)\b")
_OWN_NAME = re.compile(
    r"\bhostname\b|^\$\{?(?:HOSTNAME|SLURMD_NODENAME)\b|\buname -n\b|\bhostname -[Iifs]|\bip (?:-\S+ )*addr"
)
_LOCAL_DEFAULT = re.compile(r"\|\|\s*(?:echo|printf)\s+[\"']?(localhost|127\.0\.0\.1|::1)\b")


def addressed(job: Job) -> Iterator[tuple[World, tuple[tuple[Launch, Value], ...]]]:
    """Worlds with the addresses of the head that their launches are given."""
    for world in look.worlds(job):
        given = [(launch, look.master(launch)) for launch in world.launches if not look.standalone(launch)]
        found = tuple((launch, address) for launch, address in given if address is not None)
        if found:
            yield world, found


def _one_node(world: World, launch: Launch) -> bool:
    told = nnodes(launch)
    return (told is not None and told[1] < 2) or (
        launch.launcher in look.TORCHRUN and value(launch, "nnodes") is None and not world.line_per_node
    )


@rule(
    "A01",
    "loopback-master",
    title="The head's address is one that the other nodes reach",
    severity="error",
    source="measured with torch 2.13; many threads",
    bad=(
        "#@ node 0\n" + _STATIC.format(0, "localhost") + "#@ node 1\n" + _STATIC.format(1, "localhost"),
        "#@ every node\n" + _C10D.format("localhost:29400"),
        "#@ node 1\n" + _STATIC.format(1, "127.0.0.1"),
        "accelerate launch --multi_gpu --num_machines 2 --num_processes 8 --machine_rank 1"
        " --main_process_ip 127.0.0.1 --main_process_port 61234 train.py\n",
    ),
    good=(
        _GOOD,
        "torchrun --nnodes=1 --nproc-per-node=4 --master-addr=localhost --master-port=29501 train.py\n",
        "#@ node 0\n" + _C10D.format("localhost:29400") + "#@ node 1\n" + _C10D.format("head01:29400"),
        "deepspeed --include localhost:4,5 --master_port=29501 inference.py\n",
    ),
)
def loopback_master(job: Job) -> Iterator[Finding]:
    """localhost, 127.x and ::1 are the node itself, on every node: each waits for the head at home. On the head alone
    it works, as long as all others name the head."""
    for world, given in addressed(job):
        if not look.is_multi(job, world):
            continue
        local = [(launch, found) for launch, found in given if found.sure and is_loopback(found.sure)]
        remote = next((found for _, found in given if found.sure and not is_loopback(found.sure)), None)
        for launch, found in local:
            if _one_node(world, launch):
                continue
            head = look.node_of(job, launch) == 0 or (number(value(launch, "node-rank")) == 0)
            alone = len(local) == 1 and (world.line_per_node or look.node_of(job, launch) is not None)
            if head and alone and not look.says_every_node(job, launch):
                if world.line_per_node and remote is not None:
                    continue  # measured: static and c10d both meet
                if look.is_dynamic(launch):
                    continue
            yield Finding(
                span=found.span,
                summary=f"{found.written} is {found.shown}, which is each node itself;"
                " wanted is the head's address as the other nodes reach it",
                happens="Every node but the head looks for the head on itself: '1/2 clients joined', a time-out after"
                " 60 s (c10d) or 600 s.",
                fix=f"Write {remote.sure} there." if remote is not None
                else "Write the head's address there, as `ip route get ADDRESS` on another node shows it reachable;"
                " on the head `hostname -I` lists its addresses.",
                edits=(replace_piece(found, host=remote.sure),) if remote is not None else (),
            )  # fmt: skip


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return False
    return True


@rule(
    "A02",
    "master-differs",
    title="All nodes are given the same address of the head",
    severity="error",
    source="measured with torch 2.13; many threads",
    bad=(
        "#@ node 0\n" + _STATIC.format(0, "10.20.0.11") + "#@ node 1\n" + _STATIC.format(1, "10.20.0.12"),
        "#@ node 0\n" + _C10D.format("n1:29400") + "#@ node 1\n" + _C10D.format("n2:29400"),
    ),
    good=(
        _GOOD,
        "#@ node 0\n" + _C10D.format("head01:29400") + "#@ node 1\n" + _C10D.format("head01.cluster:29400"),
    ),
)
def master_differs(job: Job) -> Iterator[Finding]:
    """The address is the head's, on every node: not each node's own. With two addresses there are two meeting places,
    and at one of them nobody listens."""
    for _world, given in addressed(job):
        known = [(launch, found) for launch, found in given if found.sure and not is_loopback(found.sure)]
        for launch, found in known[1:]:
            first_launch, first = known[0]
            one, other = (first.sure or "").lower().strip("[]"), (found.sure or "").lower().strip("[]")
            if one == other or (
                one.split(".")[0] == other.split(".")[0] and not (_is_address(one) or _is_address(other))
            ):
                continue  # A14 looks at names that differ in domain or case
            mixed = _is_address(one) != _is_address(other)
            yield Finding(
                span=found.span,
                severity="warning" if mixed else None,
                summary=f"{found.written} is {found.sure} on {label(job, launch)} and {first.sure} on"
                f" {label(job, first_launch)}",
                happens="If these are two machines, one side waits where nobody comes: both end with a time-out after"
                " 60 s (c10d) or 600 s.",
                fix=f"Write the head's address on all nodes, here {first.sure}.",
                edits=() if mixed else (replace_piece(found, host=first.sure),),
            )


@rule(
    "A03",
    "master-empty",
    title="The head's address is not empty",
    severity="error",
    source="measured with torch 2.13; many threads",
    bad=(
        "torchrun --nnodes=2 --nproc-per-node=4 --node-rank=1 --master-addr= --master-port=61234 train.py\n",
        "MASTER_ADDR=10.20.0.11\n#@ node 1\n" + _STATIC.format(1, "$MASTER_ADRR"),
        _BATCH + f"HEAD={_HEAD}\n" + _SRUN.format("$HEAD"),
    ),
    good=(
        "export MASTER_ADDR=10.20.0.11\n" + _STATIC.format("$NODE_RANK", "$MASTER_ADDR"),
        _STATIC.format("$NODE_RANK", "${MASTER_ADDR:?}"),
        _BATCH + f"export HEAD={_HEAD}\n" + _SRUN.format("$HEAD"),
    ),
)
def master_empty(job: Job) -> Iterator[Finding]:
    """A variable that nothing sets expands to nothing: the option gets an empty value, swallows the next word, or
    torchrun takes 127.0.0.1. A variable that is set but not exported is empty in the shells that srun starts."""
    for world, given in addressed(job):
        if look.from_platform(job, world.first):
            continue
        for launch, found in given:
            if found.text == "" and not found.word.expansions:
                yield Finding(
                    span=found.span,
                    summary=f"{found.written} is empty",
                    happens="A usage error, or the node looks for the head on itself (127.0.0.1).",
                    fix="Write the head's address there.",
                )
            for each in found.word.expansions:
                if each.name and (fault := _not_set(job, launch, each)):
                    summary, severe = fault
                    yield Finding(
                        span=each.span or found.span,
                        severity=None if severe else "warning",
                        summary=f"{found.written} is {each.raw}, {summary}",
                        happens="Empty, it gives a usage error, or the node looks for the head on itself (127.0.0.1).",
                        fix=f"Set {each.name} before this line (export {each.name}=...), and write"
                        f" ${{{each.name}:?}} so"
                        " that an empty one ends the script.",
                    )


_USUAL = re.compile(r"(?:MASTER|MAIN|HEAD|CHIEF|RANK_?0|RDZV|HOST_NODE|NODE_?0|LEADER|ADDR|IP|HOST)", re.ASCII)


def _not_set(job: Job, launch: Launch, each: Expansion) -> tuple[str, bool] | None:
    setting = launch.invocation.settings.get(each.name)
    if setting is not None and not setting.exported and each.where == "task" and setting.how == "assignment":
        return f"and {each.name} is set in the batch script, but not exported to the tasks", True
    if each.is_set is not False or each.default is not None or setting is not None or each.value:
        return None
    if ":?" in each.raw or each.name in job.facts.variables:
        return None
    near = sorted(name for name in launch.invocation.settings if _near(name, each.name))
    if near:
        return f"which nothing sets; {near[0]} is set", True
    if _USUAL.search(each.name) and each.name.isupper():
        return "which nothing in this text sets: it must come from outside", False
    return "which nothing in this text sets", each.name.isupper() and job.is_batch


def _near(one: str, other: str) -> bool:
    """A slip of the finger: a letter too much, too few, another or two swapped."""
    if one == other or abs(len(one) - len(other)) > 1 or min(len(one), len(other)) < 4:
        return False
    start = 0
    while start < min(len(one), len(other)) and one[start] == other[start]:
        start += 1
    tails = (one[start:], other[start:])
    return (
        tails[0][1:] == tails[1]
        or tails[0] == tails[1][1:]
        or tails[0][1:] == tails[1][1:]
        or (tails[0][:2] == tails[1][:2][::-1] and tails[0][2:] == tails[1][2:])
    )


@rule(
    "A05",
    "wildcard-master",
    title="The head's address is an address, not 0.0.0.0",
    severity="error",
    source="measured with torch 2.13: c10d fails with 0.0.0.0 even on one node; threads",
    bad=(
        "#@ every node\n" + _STATIC.format("$NODE_RANK", "0.0.0.0"),
        "torchrun --nnodes=1 --nproc-per-node=4 --rdzv-backend=c10d --rdzv-endpoint=0.0.0.0:29400 train.py\n",
    ),
    good=(
        _GOOD,
        "torchrun --nnodes=1 --nproc-per-node=4 --rdzv-backend=c10d --rdzv-endpoint=localhost:29400 train.py\n",
    ),
)
def wildcard_master(job: Job) -> Iterator[Finding]:
    """0.0.0.0 and :: mean "all of my addresses" to who listens; who connects to them reaches itself. c10d does not
    recognise itself in them, so nobody opens the store."""
    for world, given in addressed(job):
        for launch, found in given:
            if found.text is None or found.text.strip("[]") not in ("0.0.0.0", "::", "0", "*"):
                continue
            failing = look.is_multi(job, world) or look.is_dynamic(launch)
            yield Finding(
                span=found.span,
                severity=None if failing else "warning",
                summary=f"{found.written} is {found.text}; wanted is an address to connect to",
                happens="Nobody takes itself for the head, or each node connects to itself: a time-out, or EADDRINUSE."
                if failing
                else "On Linux it reaches this node itself; torch 1.9 and 1.10 end with EADDRINUSE.",
                fix="Write the head's own address." if look.is_multi(job, world) is not False else "Write localhost.",
                edits=(replace_piece(found, host="localhost"),) if look.is_multi(job, world) is False else (),
            )


@rule(
    "A09",
    "falls-back-to-localhost",
    title="A multi-node script does not fall back to localhost",
    severity="error",
    source="many threads",
    bad=(
        "#@ every node\n" + _STATIC.format("$NODE_RANK", "${MASTER_IP:-localhost}"),
        "HEAD=$(cat head.txt 2>/dev/null || echo localhost)\n" + _C10D.format("$HEAD:29400"),
        "torchrun --nnodes=4 --nproc-per-node=8 --rdzv-backend=c10d --rdzv-endpoint=${HEAD:=127.0.0.1}:2940 t.py\n",
    ),
    good=(
        _STATIC.format("$NODE_RANK", "${MASTER_ADDR:?}"),
        "torchrun --nnodes=${NNODES:-1} --nproc-per-node=4 --node-rank=${NODE_RANK:-0}"
        " --master-addr=${MASTER_ADDR:-localhost} --master-port=29501 train.py\n",
        "HEAD=10.20.0.11\n" + _STATIC.format("$NODE_RANK", "${HEAD:-localhost}"),
    ),
)
def falls_back_to_localhost(job: Job) -> Iterator[Finding]:
    """`${X:-localhost}` and `|| echo localhost` hide that the head's address is missing: the job then waits on every
    node for itself, instead of ending with a message."""
    for world, given in addressed(job):
        if not look.is_multi(job, world) or look.from_platform(job, world.first):
            continue
        for launch, found in given:
            told = value(launch, "nnodes")
            if told is None or told.sure is None:
                continue
            for each in look.origins(found.word, launch.invocation):
                fallback = each.default or next(iter(_LOCAL_DEFAULT.findall(each.raw)), "")
                if (each.name and each.is_set is True) or not is_loopback(fallback.strip("\"'")):
                    continue
                if each.name and (set_by := launch.invocation.settings.get(each.name)) and set_by.word.text:
                    continue
                strict = f"${{{each.name}:?}}" if each.name else ""
                yield Finding(
                    span=each.span or found.span,
                    summary=f"{found.written} falls back to {fallback} in a start of {look.count_text(launch)} nodes",
                    happens="Where the address is missing, every node waits for itself until a time-out, without a word"
                    " on the reason.",
                    fix=f"Write {strict}: the script then ends with a message." if strict
                    else "Let the script end when the address is missing (|| exit 1).",
                    edits=(Edit(each.span, strict),) if strict and each.span is not None else (),
                )  # fmt: skip


@rule(
    "A10",
    "own-name-as-master",
    title="The head's address is found out once, not on every node",
    severity="error",
    source="our inference from A02, which is measured",
    bad=(
        "#@ every node\n" + _STATIC.format("$NODE_RANK", "$(hostname -I | awk '{print $1}')"),
        _BATCH + _SRUN.format("$(hostname)"),
        "#@ node 0\n" + _C10D.format("$(hostname):29400") + "#@ node 1\n" + _C10D.format("$(hostname):29400"),
    ),
    good=(
        _BATCH + "export MASTER_ADDR=$(hostname)\n" + _SRUN.format("$MASTER_ADDR"),
        "#@ node 0\n" + _STATIC.format(0, "$(hostname)") + "#@ node 1\n" + _STATIC.format(1, "10.20.0.11"),
        Example(
            "torchrun --nnodes=1 --nproc-per-node=4 --master-addr=$(hostname) --master-port=2951 t.py\n", "nodes=1"
        ),
    ),
)
def own_name_as_master(job: Job) -> Iterator[Finding]:
    """`$(hostname)`, `$HOSTNAME` and `$(hostname -I)` are each node's own name where each node evaluates them: in a
    script that every node runs, and inside `srun bash -c '...'`. In the batch script they are the head's."""
    for world, given in addressed(job):
        if not look.is_multi(job, world) or look.from_platform(job, world.first):
            continue
        for launch, found in given:
            node = look.node_of(job, launch)
            if node == 0 or number(value(launch, "node-rank")) == 0 or launch.invocation.in_loop:
                continue
            for each in look.origins(found.word, launch.invocation):
                if each.where == "batch" or not _OWN_NAME.search(each.raw) or _ELSEWHERE.search(each.raw):
                    continue
                if _guarded(job, each):
                    continue
                in_srun = bool(look.sruns(launch))
                yield Finding(
                    span=each.span or found.span,
                    summary=f"{found.written} is {each.raw}: on every node another one",
                    happens="Every node takes its own address for the head's: nobody meets anybody; after 60 s (c10d)"
                    " or 600 s there is a time-out.",
                    fix=f"Before srun, in the batch script: export MASTER_ADDR={_HEAD}; in the task: $MASTER_ADDR."
                    if in_srun
                    else "Find the address out on the head, and give that to all nodes.",
                )
                break


def _guarded(job: Job, each: Expansion) -> bool:
    """The assignment stands in an `if` or after `&&`, `||`: maybe one node only takes it."""
    if each.span is None:
        return False
    start = job.text.rfind("\n", 0, each.span.start) + 1
    line = job.text[start : each.span.start]
    return bool(re.search(r"&&|\|\||\bthen\b|\]\s*;|\bif\b", line)) or line[:1] in (" ", "\t")


@rule(
    "A11",
    "slurm-launch-node-address",
    title="The head is the first node of the job, not where srun was called",
    severity="warning",
    source="measured with Slurm 22.05; pith-train pull request 47",
    bad=(
        _BATCH + "export MASTER_ADDR=$SLURM_LAUNCH_NODE_IPADDR\n" + _SRUN.format("$MASTER_ADDR"),
        _BATCH + _SRUN.format("$SLURM_LAUNCH_NODE_IPADDR"),
    ),
    good=(_BATCH + f"export MASTER_ADDR={_HEAD}\n" + _SRUN.format("$MASTER_ADDR"), _GOOD),
)
def slurm_launch_node_address(job: Job) -> Iterator[Finding]:
    """SLURM_LAUNCH_NODE_IPADDR is the address from which srun was called: the login node, where srun is called there,
    and it is empty in the batch script."""
    for _world, given in addressed(job):
        for launch, found in given:
            for each in look.origins(found.word, launch.invocation):
                if each.name != "SLURM_LAUNCH_NODE_IPADDR":
                    continue
                batch = each.where == "batch"
                yield Finding(
                    span=each.span or found.span,
                    summary=f"{found.written} is {each.raw}: the address of the node that called srun",
                    happens="It is empty in the batch script." if batch
                    else "From a login node srun hands over the login node's address: nobody listens there.",
                    fix=f"Use the first node of the job, before srun: MASTER_ADDR={_HEAD}.",
                    edits=(Edit(each.span, _HEAD),) if batch and each.span is not None else (),
                )  # fmt: skip
                break
