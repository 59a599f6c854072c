"""Rules of the head's address: A01, A02, A03, A05."""

import ipaddress
import re
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.edits import replace_piece
from gpudoctor.lint.look import LintWorld, Value, is_loopback, label, nnodes, number, value
from gpudoctor.lint.model import Expansion, LintJob, LintLaunch, Word
from gpudoctor.lint.rule import LintFinding, rule

STATIC = "torchrun --nnodes=2 --nproc-per-node=4 --node-rank={} --master-addr={} --master-port=61234 train.py\n"
C10D = "torchrun --nnodes=2 --nproc-per-node=4 --rdzv-id=7 --rdzv-backend=c10d --rdzv-endpoint={} train.py\n"
GOOD = "#@ node 0\n" + STATIC.format(0, "10.20.0.11") + "#@ node 1\n" + STATIC.format(1, "10.20.0.11")
HEAD = '$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)'
BATCH = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gres=gpu:4\n#SBATCH --cpus-per-task=8\n"
SRUN = (
    "srun --cpus-per-task=8 bash -c 'torchrun --nnodes=$SLURM_NNODES --node-rank=$SLURM_NODEID --nproc-per-node=4"
    " --master-addr={} --master-port=61234 train.py'\n"
)


def addressed(job: LintJob) -> Iterator[tuple[LintWorld, tuple[tuple[LintLaunch, Value], ...]]]:
    """Worlds with the addresses of the head that their launches are given."""
    for world in look.worlds(job):
        given = [(launch, look.master(launch)) for launch in world.launches if not look.standalone(launch)]
        addresses = tuple((launch, address) for launch, address in given if address is not None)
        if addresses:
            yield world, addresses
    hosts = max((len({line.name for line in hostfile.lines}) for hostfile in job.hostfiles), default=0)
    for launch in job.launches[: look.SIBLINGS]:
        if launch.launcher != "deepspeed" or look.meets(launch) or hosts < 2 or not launch.option("hostfile"):
            continue  # DeepSpeed runs once, and hands its address to all hosts of the hostfile
        if not launch.option("include", "num-nodes") and (address := value(launch, "master-addr")) is not None:
            yield LintWorld(launches=(launch,), nodes=hosts, multi=True), ((launch, address),)


def _one_node(world: LintWorld, launch: LintLaunch) -> bool:
    nodes = nnodes(launch)
    return (nodes is not None and nodes[1] < 2) or (
        launch.launcher in look.TORCHRUN and value(launch, "nnodes") is None and not world.line_per_node
    )


@rule(
    "A01",
    title="The head's address is one that the other nodes reach",
    source="measured with torch 2.13; many threads",
    leads_to=("master-addr-loopback",),
    bad=(
        "#@ node 0\n" + STATIC.format(0, "localhost") + "#@ node 1\n" + STATIC.format(1, "localhost"),
        "#@ every node\n" + C10D.format("localhost:29400"),
        "#@ node 1\n" + STATIC.format(1, "127.0.0.1"),
        "accelerate launch --multi_gpu --num_machines 2 --num_processes 8 --machine_rank 1"
        " --main_process_ip 127.0.0.1 --main_process_port 61234 train.py\n",
    ),
    good=(
        GOOD,
        "torchrun --nnodes=1 --nproc-per-node=4 --master-addr=localhost --master-port=29501 train.py\n",
        "#@ node 0\n" + C10D.format("localhost:29400") + "#@ node 1\n" + C10D.format("head01:29400"),
        "deepspeed --include localhost:4,5 --master_port=29501 inference.py\n",
        C10D.format("localhost:29400").replace("=2 ", "=1:4 "),
    ),
)
def loopback_master(job: LintJob) -> Iterator[LintFinding]:
    """localhost, 127.x and ::1 are the node itself, on every node: each waits for the head at home. On the head alone
    it works, as long as all others name the head."""
    for world, given in addressed(job):
        if not look.is_multi(job, world):
            continue
        local = [(launch, address) for launch, address in given if address.sure and is_loopback(address.sure)]
        remote = next((address for _, address in given if address.sure and not is_loopback(address.sure)), None)
        for launch, address in local:
            if launch.launcher != "deepspeed" and _one_node(world, launch):
                continue
            head = look.node_of(job, launch) == 0 or (number(value(launch, "node-rank")) == 0)
            alone = len(local) == 1 and (world.line_per_node or look.node_of(job, launch) is not None)
            if head and alone and not look.says_every_node(job, launch):
                if world.line_per_node and remote is not None:
                    continue  # measured: static and c10d both meet
                if look.is_dynamic(launch):
                    continue
            yield LintFinding(
                span=address.span,
                # on node 0 it works, where the others' texts, which are not here, name it: so people write a file each
                severity="warning" if head and not look.says_every_node(job, launch) else None,
                summary=f"{address.written} is {address.shown}, which is each node itself;"
                " wanted is the head's address as the other nodes reach it",
                happens="Every node but the head looks for the head on itself: '1/2 clients joined', a time-out after"
                " 60 s (c10d) or 600 s.",
                fix=f"Write {remote.sure} there." if remote is not None
                else "Write the head's address there, as `ip route get ADDRESS` on another node shows it reachable;"
                " on the head `hostname -I` lists its addresses.",
                edits=(replace_piece(address, host=remote.sure),) if remote is not None else (),
            )  # fmt: skip
    yield from _loopback_url(job)


def _loopback_url(job: LintJob) -> Iterator[LintFinding]:
    """`--dist-url tcp://127.0.0.1:PORT --world-size 2 --rank 1`, as scripts of the ImageNet example's kind take it."""
    for launch in job.launches[: look.SIBLINGS]:
        if launch.launcher != "python" or look.section_node(job, launch) in (None, 0):
            continue
        given: dict[str, Word] = {}
        for word, after in zip(launch.script_words, [*launch.script_words[1:], None], strict=False):
            name, equals, _ = (word.text or "").partition("=")
            if (target := word if equals else after) is not None:
                given[name.lstrip("-").replace("_", "-")] = target
        texts = {name: (word.text or "").rpartition("=")[2] for name, word in given.items()}
        url = re.fullmatch(r"tcp://(\[[^\]]+\]|[^:/]+):\d+", texts.get("dist-url", ""))
        ranked = re.fullmatch(r"[1-9]\d{0,5}", texts.get("rank", texts.get("node-rank", "")), re.ASCII)
        if url is not None and is_loopback(url[1]) and ranked:
            yield LintFinding(
                span=given["dist-url"].span,
                summary=f"--dist-url is {url[0]} on {label(job, launch)}, which is each node itself",
                happens="This node looks for rank 0 on itself: it waits until a time-out after 30 minutes.",
                fix="Write the head's address there, the same on every node.",
            )


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return False
    return True


@rule(
    "A02",
    title="All nodes are given the same address of the head",
    source="measured with torch 2.13; many threads",
    leads_to=("master-unreachable",),
    bad=(
        "#@ node 0\n" + STATIC.format(0, "10.20.0.11") + "#@ node 1\n" + STATIC.format(1, "10.20.0.12"),
        "#@ node 0\n" + C10D.format("n1:29400") + "#@ node 1\n" + C10D.format("n2:29400"),
    ),
    good=(
        GOOD,
        "#@ node 0\n" + C10D.format("head01:29400") + "#@ node 1\n" + C10D.format("head01.cluster:29400"),
    ),
)
def master_differs(job: LintJob) -> Iterator[LintFinding]:
    """The address is the head's, on every node: not each node's own. With two addresses there are two meeting places,
    and at one of them nobody listens."""
    for _world, given in addressed(job):
        known = [(launch, address) for launch, address in given if address.sure and not is_loopback(address.sure)]
        for launch, address in known[1:]:
            first_launch, first = known[0]
            one, other = (first.sure or "").lower().strip("[]"), (address.sure or "").lower().strip("[]")
            if one == other or (
                one.split(".")[0] == other.split(".")[0] and not (_is_address(one) or _is_address(other))
            ):
                continue  # A14 looks at names that differ in domain or case
            mixed = _is_address(one) != _is_address(other)
            yield LintFinding(
                span=address.span,
                severity="warning" if mixed else None,
                summary=f"{address.written} is {address.sure} on {label(job, launch)} and {first.sure} on"
                f" {label(job, first_launch)}",
                happens="If these are two machines, one side waits where nobody comes: both end with a time-out after"
                " 60 s (c10d) or 600 s.",
                fix=f"Write the head's address on all nodes, here {first.sure}.",
                edits=() if mixed else (replace_piece(address, host=first.sure),),
            )


@rule(
    "A03",
    title="The head's address is not empty",
    source="measured with torch 2.13; many threads",
    leads_to=("master-addr-loopback",),
    bad=(
        "torchrun --nnodes=2 --nproc-per-node=4 --node-rank=1 --master-addr= --master-port=61234 train.py\n",
        "MASTER_ADDR=10.20.0.11\n#@ node 1\n" + STATIC.format(1, "$MASTER_ADRR"),
        BATCH + f"HEAD={HEAD}\n" + SRUN.format("$HEAD"),
    ),
    good=(
        "export MASTER_ADDR=10.20.0.11\n" + STATIC.format("$NODE_RANK", "$MASTER_ADDR"),
        STATIC.format("$NODE_RANK", "${MASTER_ADDR:?}"),
        "mapfile -t hosts < hosts.txt\n" + STATIC.format("$NODE_RANK", "${hosts[0]}"),
        "set -euo pipefail\n" + STATIC.format("$NODE_RANK", "$MASTER_ADDR"),
        BATCH + f"export HEAD={HEAD}\n" + SRUN.format("$HEAD"),
        "two: env\n\ttorchrun --nnodes=2 --node-rank=$(NODE_RANK) --nproc-per-node=4 \\\n"
        "\t\t--master-addr=$(HEAD) --master-port=61234 train.py\n",
    ),
)
def master_empty(job: LintJob) -> Iterator[LintFinding]:
    """A variable that nothing sets expands to nothing: the option gets an empty value, swallows the next word, or
    torchrun takes 127.0.0.1. A variable that is set but not exported is empty in the shells that srun starts."""
    for world, given in addressed(job):
        if look.from_platform(job, world.first):
            continue
        for launch, address in given:
            if address.text == "" and not address.word.expansions:
                yield LintFinding(
                    span=address.span,
                    summary=f"{address.written} is empty",
                    happens="A usage error, or the node looks for the head on itself (127.0.0.1).",
                    fix="Write the head's address there.",
                )
            for expansion in address.word.expansions:
                if expansion.name and (fault := _not_set(job, launch, expansion)):
                    summary, severe = fault
                    yield LintFinding(
                        span=expansion.span or address.span,
                        severity=None if severe else "info" if _from_outside(launch) else "warning",
                        summary=f"{address.written} is {expansion.raw}, {summary}",
                        happens="Empty, it gives a usage error, or the node looks for the head on itself (127.0.0.1).",
                        fix=f"Set {expansion.name} before this line (export {expansion.name}=...), and write "
                        f"${{{expansion.name}:?}} so that an empty one ends the script.",
                    )


def _from_outside(launch: LintLaunch) -> bool:
    """Its numbers come from outside too: whoever calls this text hands the whole world over, as a pod's environment
    does."""
    words = [option.value for option in (launch.option("nnodes"), launch.option("node-rank")) if option is not None]
    given = [expansion for word in words if word is not None for expansion in word.expansions]
    return any(each.name and each.is_set is False and each.default is None and not each.value for each in given)


_USUAL = lazy_re(r"(?:MASTER|MAIN|HEAD|CHIEF|RANK_?0|RDZV|HOST_NODE|NODE_?0|LEADER|ADDR|IP|HOST)", re.ASCII)


_SAYS_SO = lazy_re(r"^[ \t]*set[ \t]+(?:-\w+[ \t]+)*(?:-\w*u\w*|-o[ \t]+nounset)\b", re.MULTILINE | re.ASCII)


def _not_set(job: LintJob, launch: LintLaunch, expansion: Expansion) -> tuple[str, bool] | None:
    setting = launch.invocation.settings.get(expansion.name)
    inherited = setting is not None and not setting.exported and setting.how == "assignment"
    if inherited and expansion.where == "task" and not expansion.is_set:  # one that the task itself sets is set
        return f"and {expansion.name} is set in the batch script, but not exported to the tasks", True
    if expansion.is_set is not False or expansion.default is not None or setting is not None or expansion.value:
        return None
    if ":?" in expansion.raw or expansion.name in job.facts.variables:
        return None
    near = sorted(name for name in launch.invocation.settings if _near(name, expansion.name))
    if near:
        return f"which nothing sets; {near[0]} is set", True
    if expansion.span is not None and job.text.startswith("$(", expansion.span.start):
        return None  # make's own, given on its command line
    if _USUAL.search(expansion.name) and expansion.name.isupper():
        if _SAYS_SO.search(job.text) or ("JOB_COMPLETION_INDEX" in job.text and not job.manifests):
            return None  # bash ends the script with the variable's name; or a manifest sets it beside that one
        return "which nothing in this text sets: it must come from outside", False
    return "which nothing in this text sets", expansion.name.isupper() and job.is_batch


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
    title="The head's address is an address, not 0.0.0.0",
    source="measured with torch 2.13: c10d fails with 0.0.0.0 even on one node; threads",
    leads_to=("master-addr-loopback",),
    bad=(
        "#@ every node\n" + STATIC.format("$NODE_RANK", "0.0.0.0"),
        "torchrun --nnodes=1 --nproc-per-node=4 --rdzv-backend=c10d --rdzv-endpoint=0.0.0.0:29400 train.py\n",
    ),
    good=(
        GOOD,
        "torchrun --nnodes=1 --nproc-per-node=4 --rdzv-backend=c10d --rdzv-endpoint=localhost:29400 train.py\n",
    ),
)
def wildcard_master(job: LintJob) -> Iterator[LintFinding]:
    """0.0.0.0 and :: mean "all of my addresses" to who listens; who connects to them reaches itself. c10d does not
    recognise itself in them, so nobody opens the store."""
    for world, given in addressed(job):
        for launch, address in given:
            if address.text is None or address.text.strip("[]") not in ("0.0.0.0", "::", "0", "*"):
                continue
            failing = look.is_multi(job, world) or look.is_dynamic(launch)
            yield LintFinding(
                span=address.span,
                severity=None if failing else "warning",
                summary=f"{address.written} is {address.text}; wanted is an address to connect to",
                happens="Nobody takes itself for the head, or each node connects to itself: a time-out, or EADDRINUSE."
                if failing
                else "On Linux it reaches this node itself; torch 1.9 and 1.10 end with EADDRINUSE.",
                fix="Write the head's own address." if look.is_multi(job, world) is not False else "Write localhost.",
                edits=(replace_piece(address, host="localhost"),) if look.is_multi(job, world) is False else (),
            )
