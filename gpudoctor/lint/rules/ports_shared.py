"""Rules of a port among several nodes, jobs and firewalls: P04, P05, P06, P08."""

import re
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.edits import insert_options, replace_piece, spell
from gpudoctor.lint.look import TORCHRUN, label, value
from gpudoctor.lint.model import LintJob, LintLaunch
from gpudoctor.lint.rule import Edit, Example, LintFinding, rule
from gpudoctor.lint.rules.ports import BATCH, C10D, GOOD, ONE, SRUN, STATIC, each_port, port_number, ported
from gpudoctor.lint.rules.rendezvous import PER_NODE

_OF_THE_JOB = "$((61000 + SLURM_JOB_ID % 4536))"
"""A port of the job's own, outside of the range that Linux hands out."""
_FREE_PORT = lazy_re(r"free_?port|getsockname|\bss\b.*\bcomm\b|unused_?port", re.IGNORECASE)


def listens(job: LintJob, launch: LintLaunch) -> tuple[str, bool] | None:
    """The port that a start on one machine listens on, and whether that is only the default; None when it is free."""
    if (
        look.standalone(launch)
        or look.may_hide_options(launch)
        or not (look.traits(launch).sets_ranks or launch.launcher == "python")
    ):
        return None
    port = look.port(launch) if launch.launcher != "deepspeed" else value(launch, "master-port")
    if port is not None:
        return None if port.sure in (None, "", "0") else (port.sure or "", False)
    if launch.launcher == "python" or look.endpoint(launch) is not None or not look.is_static(launch):
        return None
    torch = job.facts.version("torch")
    nodes = look.nnodes(launch)
    if launch.launcher in TORCHRUN and torch is not None and torch >= (2, 12) and (nodes is None or nodes[1] == 1):
        return None  # one node and no port: c10d on a free port
    return "29500", True


def _pairs(job: LintJob) -> Iterator[tuple[LintLaunch, LintLaunch]]:
    """Starts of different trainings that run at once on the same machine."""
    jobs = [launch for launch in job.launches[: look.SIBLINGS] if look.section_kind(job, launch) == "job"]
    for index, launch in enumerate(jobs):
        for other in jobs[max(0, index - 8) : index]:
            if other.invocation.section != launch.invocation.section:
                yield other, launch
    for first, second in look.neighbours(job):
        ranks = [each.shown if (each := value(one, "node-rank")) else "" for one in (first, second)]
        if first.launcher == second.launcher == "python" or ranks[0] != ranks[1]:
            continue
        yield first, second


def _id(launch: LintLaunch) -> str:
    given = value(launch, "rdzv-id")
    return given.shown if given is not None else ""


@rule(
    "P04",
    title="Two jobs on one host have a port each",
    needs="facts",
    source="measured with torch 2.13 and 1.12; many threads",
    leads_to=("master-port-in-use",),
    bad=(
        "#@ job 1, same host\n" + ONE.format(29501) + "#@ job 2, same host\n" + ONE.format(29501),
        Example(
            "CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node=2 a.py &\n"
            "CUDA_VISIBLE_DEVICES=2,3 torchrun --nproc_per_node=2 b.py &\nwait\n",
            "torch=2.4",
        ),
        "deepspeed --include localhost:0,1 a.py &\ndeepspeed --include localhost:2,3 b.py &\nwait\n",
    ),
    good=(
        "#@ job 1, same host\n" + ONE.format(29501) + "#@ job 2, same host\n" + ONE.format(29502),
        "torchrun --standalone --nproc-per-node=2 a.py &\ntorchrun --standalone --nproc-per-node=2 b.py &\nwait\n",
        ONE.format(29501) + ONE.format(29501),
        Example("torchrun --nproc-per-node=2 a.py &\ntorchrun --nproc-per-node=2 b.py &\nwait\n", "torch=2.13"),
    ),
)
def port_taken_by_other_job(job: LintJob) -> Iterator[LintFinding]:
    """Each job's head opens a store of its own. The second one on the same port ends with EADDRINUSE, or its workers
    talk to the first one's store. Whether another user's process holds the port, only the head can tell."""
    said: set[int] = set()
    for first, second in _pairs(job):
        ports = (listens(job, first), listens(job, second))
        if ports[0] is None or ports[1] is None or ports[0][0] != ports[1][0]:
            continue
        if second.invocation.span.start in said:
            continue
        said.add(second.invocation.span.start)
        port, default = ports[1]
        unsure = default and second.launcher in TORCHRUN and job.facts.version("torch") is None
        if look.is_dynamic(first) and look.is_dynamic(second):
            if _id(first) == _id(second):
                continue  # two agents of one job: R13
            unsure = True
        free = str(int(port) + 1 + len(said) - 1) if port.isdigit() and 1024 <= int(port) < 65000 else "61234"
        named = look.port(second) if second.launcher != "deepspeed" else value(second, "master-port")
        if named is not None:
            edits: tuple[Edit, ...] = (replace_piece(named, port=free),)
            fix = f"Give it a port of its own: {named.written} {free}."
        elif second.launcher in TORCHRUN:
            edits, fix = (
                insert_options(second, "--standalone"),
                "Add --standalone, which takes a free port (torch 2.1 on).",
            )
        else:
            option = spell(second, "master-port")
            edits, fix = insert_options(second, f"{option}={free}"), f"Add {option}={free}."
        if first.invocation.span == second.invocation.span:
            edits, fix = (
                (),
                f"Give each turn of the loop its own port: $(({port} + ${second.invocation.in_loop or 'i'})).",
            )
        yield LintFinding(
            span=named.span if named is not None else look.head_span(second),
            severity="warning" if unsure else None,
            summary=f"Two jobs on this host use port {port}" + (" (the default)" if default else "")
            + f": {label(job, first)} and {label(job, second)}",
            happens="The second one ends with EADDRINUSE"
            + (", before torch 2.12." if unsure and default else ", or its workers reach the first one's store."),
            fix=fix,
            edits=edits,
        )  # fmt: skip


@rule(
    "P05",
    title="All nodes are given the same port",
    source="measured with torch 2.13",
    leads_to=("master-unreachable",),
    bad=(
        "#@ node 0\n" + STATIC.format(0, 61234) + "#@ node 1\n" + STATIC.format(1, 61235),
        BATCH + SRUN.format("$((20000 + RANDOM % 10000))"),
        "#@ every node\nPORT=$(shuf -i 20000-30000 -n 1)\n" + C10D.format("$PORT"),
    ),
    good=(
        GOOD,
        BATCH + "export MASTER_PORT=$((20000 + RANDOM % 10000))\n" + SRUN.format("$MASTER_PORT"),
        ONE.format("$((20000 + RANDOM % 10000))"),
    ),
)
def port_differs(job: LintJob) -> Iterator[LintFinding]:
    """The port belongs to the address: all nodes meet at one. A random port that each node or each task draws for
    itself is another one everywhere; drawn in the batch script, before srun, it is one for all."""
    for world, given in ported(job):
        if not look.is_multi(job, world) or look.from_platform(job, world.first):
            continue
        known = [(launch, found) for launch, found in given if port_number(found) is not None]
        for launch, port in known[1:]:
            first_launch, first = known[0]
            if port_number(port) != port_number(first):
                yield LintFinding(
                    span=port.span,
                    summary=f"The port is {port.text} on {label(job, launch)} and {first.text} on"
                    f" {label(job, first_launch)}",
                    happens="Nobody listens on the other port: a time-out after 60 s (c10d) or 600 s.",
                    fix=f"Write {first.text} on all nodes.",
                    edits=(replace_piece(port, port=first.text),),
                )
        for launch, port in given:
            if look.host_of(launch) is not None or port.text is not None:
                continue
            for origin in look.origins(port.word, launch.invocation):
                random = PER_NODE.search(origin.raw) or _FREE_PORT.search(origin.raw)
                if origin.where == "batch" or origin.value is not None or not random:
                    continue
                yield LintFinding(
                    span=origin.span or port.span,
                    summary=f"The port comes from {origin.raw}, which each node evaluates for itself",
                    happens="Every node has another port: nobody meets the head, and there is a time-out after 60 s or"
                    " 600 s.",
                    fix=f"Write {_OF_THE_JOB}, which is the same in every task; or draw it once, in the batch script."
                    if look.sruns(launch)
                    else "Write one fixed port, such as 61234, on all nodes.",
                    edits=(replace_piece(port, port=_OF_THE_JOB if look.sruns(launch) else "61234"),),
                )
                break


@rule(
    "P06",
    title="A static endpoint names its port",
    source="measured with torch 2.13",
    bad=(
        "torchrun --nnodes=2 --nproc-per-node=4 --node-rank=1 --rdzv-endpoint=10.20.0.11 train.py\n",
        "torchrun --nnodes=2 --nproc_per_node=4 --node_rank=0 --rdzv_backend=static --rdzv_endpoint=head01 train.py\n",
    ),
    good=(
        "#@ node 1\ntorchrun --nnodes=2 --nproc-per-node=4 --node-rank=1 --rdzv-endpoint=10.20.0.11:61234 train.py\n",
        C10D.replace(":{}", ""),
        "#@ node 1\ntorchrun --nnodes=2 --nproc-per-node=4 --node-rank=1 --rdzv-endpoint=$ENDPOINT train.py\n",
    ),
)
def endpoint_without_port(job: LintJob) -> Iterator[LintFinding]:
    """c10d takes 29400 when the endpoint has no port; the static backend does not."""
    for world in look.worlds(job):
        for launch in world.launches:
            whole = look.endpoint(launch)
            if whole is None or not whole.sure or not look.is_static(launch) or look.standalone(launch):
                continue
            if look.split_endpoint(whole.sure)[1] or "://" in whole.sure:
                continue
            if whole.sure.count(":") > 1 and "]" not in whole.sure:
                continue  # A12
            yield LintFinding(
                span=whole.span,
                summary=f"{whole.written} is {whole.text}, without a port",
                happens="ValueError: the port is missing in the endpoint.",
                fix=f"Write {whole.text.rstrip(':') if whole.text else ''}:61234.",
                edits=(Edit(whole.span, f"{whole.sure.rstrip(':')}:61234"),),
            )


_ONE_PORT_OPEN = lazy_re(
    r"\bufw allow (?:in )?(?:proto tcp )?(?:to any port )?(\d{4,5})(?:/tcp)?\s*$"
    r"|\biptables\b.*--dport (\d{4,5})\s.*ACCEPT"
    r"|\bfirewall-cmd\b.*--add-port=(\d{4,5})/tcp"
    r"|\bdocker run\b.*\s-p (\d{4,5}):\d{4,5}\s"
)


@rule(
    "P08",
    title="The nodes reach each other on all ports",
    severity="warning",
    needs="probe",
    source="measured with torch 2.13: workers of c10d, gloo and NCCL use random ports",
    leads_to=("firewall-ephemeral-ports",),
    bad=(
        "sudo ufw allow 61234/tcp\n#@ node 0\n" + STATIC.format(0, 61234),
        "firewall-cmd --add-port=29400/tcp\n" + C10D.format(29400),
    ),
    good=(GOOD, "sudo ufw allow from 10.20.0.0/24\n#@ node 0\n" + STATIC.format(0, 61234)),
)
def only_one_port_open(job: LintJob) -> Iterator[LintFinding]:
    """The rendezvous port is for the rendezvous. gloo, NCCL and c10d's workers then connect to random ports, in all
    directions; a firewall that opens the one port lets the job start and hang."""
    if not any(each in job.text for each in ("ufw allow", "--dport ", "--add-port=", "docker run")):
        return
    lines = [line for line in job.text.splitlines() if not line.lstrip().startswith("#") and len(line) < 2000]
    opened = {group for line in lines for match in _ONE_PORT_OPEN.finditer(line) for group in match.groups() if group}
    if not opened or any("--net" in line for line in lines if "docker" in line):
        return
    for world, launch, given_port in each_port(job):
        port = port_number(given_port)
        if look.is_multi(job, world) and port is not None and str(port) in opened:
            yield LintFinding(
                span=given_port.span,
                summary=f"The text opens port {port} alone; gloo, NCCL and c10d's workers use random ports as well",
                happens=f"The rendezvous on {label(job, launch)} passes, and the job hangs in its first collective.",
                fix="Open all ports between the nodes, such as `ufw allow from SUBNET`; `gpudoctor launch --check` "
                "tries random ports in both directions.",
            )
            return
