"""Rules of the table of nodes: what must be alike on all of them, and what on none. R17, R18."""

import re
from collections.abc import Callable, Iterator

from gpudoctor.knowledge.host_lists import expanded
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.look import Value, value
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.nodes import NodeRow, NodeTable, tables
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.shell.guards import is_node_rank

_START = "torchrun --nnodes=2 --nproc-per-node=8 --node-rank=$NODE_RANK --master-addr={} --master-port=61234 train.py\n"
_CASE = (
    "#!/bin/bash\ncase $(hostname -s) in\n  gpu-a) NODE_RANK={} ;;\n  gpu-b) NODE_RANK={} ;;\nesac\n"
    + _START.format("gpu-a")
)
_IF = (
    '#!/bin/bash\nif [ "$HOSTNAME" = gpu-a ]; then\n  export NODE_RANK=0\nelse\n  export NODE_RANK={}\nfi\n'
    + _START.format("gpu-a")
)
_TASKS = (
    "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=8\n"
    "#SBATCH --cpus-per-task=32\nexport MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1)\n"
    "srun bash -c 'torchrun --nnodes=2 --nproc-per-node=8 --node-rank={} --master-addr=$MASTER_ADDR train.py'\n"
)
_HANDS = "MASTER_ADDR={} MASTER_PORT={} WORLD_SIZE={} RANK={} python train.py\n"


def _hands(*lines: tuple[str, int, int]) -> str:
    return "".join(
        f"#@ node {rank}\n" + _HANDS.format(address, port, world, rank)
        for rank, (address, port, world) in enumerate(lines)
    )


@rule(
    "R17",
    title="What the nodes make of one text is one world",
    source="torch/distributed/run.py and rendezvous.py of 2.13: nodes meet by the same address, port and count, and"
    " differ in their rank; the text is read as each node",
    leads_to=("launcher-world-mismatch",),
    bad=(
        _CASE.format(0, 0),
        _CASE.format(1, 2),
        _IF.format(0),
        _IF.format("1 HEAD=gpu-b")
        .replace("=0\n", "=0 HEAD=gpu-a\n")
        .replace("--master-addr=gpu-a", "--master-addr=$HEAD"),
        _TASKS.format("$((SLURM_NODEID + 1))"),
        _hands(("10.20.0.11", 61234, 2), ("10.20.0.11", 61234, 3)),
    ),
    good=(
        _CASE.format(0, 1),
        _IF.format(1),
        _TASKS.format("$((SLURM_NODEID))"),
        _hands(("10.20.0.11", 61234, 2), ("10.20.0.11", 61234, 2)),
    ),
)
def nodes_are_no_world(job: LintJob) -> Iterator[LintFinding]:
    """A text that asks for its host's name, or counts with SLURM's number of the node, hands each node something else.
    Read as each of them, the nodes must have ranks from 0 upwards, each once, and the same head, port and count."""
    for table in tables(job):
        if table.is_seen:
            yield from _ranks(table)
            yield from _unlike(table, "the head's address", lambda row: row.master)
            yield from _unlike(table, "the port", lambda row: row.port)
            yield from _unlike(table, "the rendezvous id", lambda row: value(row.launch, "rdzv-id"))
        if not table.by_hand:
            yield from _head(table)
        else:
            yield from _meeting_places(table)
        yield from _counts(table)
    yield from _fanned(job)


def _head(table: NodeTable) -> Iterator[LintFinding]:
    """The head is the host of node rank 0, whatever else the list of hosts has."""
    first = next((row for row in table.rows if row.rank == 0), None)
    places = {row.name: row for row in table.rows}
    if len({head.sure for row in table.rows if (head := row.master) is not None and row.rank}) > 1:
        return
    for row in table.rows:
        head = row.master
        if first is None or head is None or head.sure is None or not look.is_static(row.launch):
            continue
        if table.is_seen and row.rank and look.is_loopback(head.sure):
            yield LintFinding(
                span=head.span,
                summary=f"the head's address is {head.sure} on {row.name} too, which is node rank {row.rank}",
                happens="That node looks for the head on itself, and waits until the time-out.",
                fix=f"Write the address of {first.name} there.",
            )
            return
        if head.sure in places and places[head.sure].rank not in (0, None) and len(places) == len(table.rows):
            yield LintFinding(
                span=head.span,
                summary=f"the head's address is {head.sure}, which is node rank {places[head.sure].rank};"
                f" node rank 0 is {first.name}",
                happens="Node rank 0 opens the store on its own host: nobody listens where the others look.",
                fix=f"Write {first.name} as the head's address, or give {head.sure} node rank 0.",
            )
            return


_PLACE = lazy_re(r"--(?:(?:dist|init)[-_](?:url|method)|master[-_](?:addr|port))")


def _meeting_places(table: NodeTable) -> Iterator[LintFinding]:
    """`--dist-url tcp://HEAD:PORT` of plain starts."""
    told: dict[str, tuple[NodeRow, str]] = {}
    for row in table.rows:
        words = row.launch.script_words
        for at, word in enumerate(words):
            name, equals, given = word.shown.partition("=")
            if not _PLACE.fullmatch(name):
                continue
            after = words[at + 1] if at + 1 < len(words) else None
            place = given if equals else (after.text or "") if after is not None else ""
            first, other = told.setdefault(name, (row, place))
            if place and other and place != other and not _HERE.search(place + " " + other):
                yield LintFinding(
                    span=word.span,
                    summary=f"{name} is {other} on {first.name} and {place} on {row.name}",
                    happens="They look for each other at different places, and wait until the time-out.",
                    fix=f"Write {other} on all of them.",
                )
                return


_HERE = lazy_re(r"localhost|127\.0|env:|[$`{]")


def _fanned(job: LintJob) -> Iterator[LintFinding]:
    """pdsh over so many hosts starts so many nodes."""
    for launch in job.launches[: look.SIBLINGS]:
        count = look.nnodes(launch)
        for outer in launch.invocation.within:
            hosts = hosts_of(look.fanned(outer))
            if count is not None and count[0] > 1 and len(hosts) > 1 and not count[0] <= len(hosts) <= count[1]:
                given = value(launch, "nnodes")
                yield LintFinding(
                    span=given.span if given is not None else launch.invocation.span,
                    summary=f"{outer.program} starts it on {len(hosts)} hosts, and the number of nodes is {count[1]}",
                    happens="It waits for nodes that nobody starts, or turns the last ones away.",
                    fix=f"Write {len(hosts)}, or another list of hosts.",
                )


def hosts_of(text: str) -> list[str]:
    """The hosts of `n[01-04],n07`; none where it is not all plain."""
    hosts: list[str] = []
    for part in re.findall(r"[^,\[]+(?:\[[^]]*\][^,]*)?", text):
        ranges = re.fullmatch(r"([\w.-]*)\[([\d,-]+)\]([\w.-]*)", part)
        if ranges is not None:
            hosts += expanded(ranges[1], ranges[2], ranges[3])
        elif re.fullmatch(r"[\w.-]+", part):
            hosts.append(part)
        else:
            return []
    return hosts


def _ranks(table: NodeTable) -> Iterator[LintFinding]:
    first: dict[int, NodeRow] = {}
    for row in table.rows:
        if row.rank is None or (row.world is not None and row.world < 2):
            continue
        other = first.setdefault(row.rank, row)
        if other is not row:
            yield LintFinding(
                span=row.span,
                summary=f"{other.name} and {row.name} are both node rank {row.rank}",
                happens="Both start the same global ranks, and all wait for the missing ones until the time-out.",
                fix="Give each node a node rank of its own, from 0 upwards.",
            )
        elif row.world is not None and row.rank >= row.world:
            yield LintFinding(
                span=row.span,
                summary=f"{row.name} is node rank {row.rank} of {row.world}; node ranks go from 0 to {row.world - 1}",
                happens="Node rank 0 opens the store and waits for the ranks below the number of nodes: all wait.",
                fix="Count the nodes from 0.",
            )


def _unlike(table: NodeTable, what: str, of: Callable[[NodeRow], Value | None]) -> Iterator[LintFinding]:
    told = [(row, given) for row in table.rows if (given := of(row)) is not None and given.sure]
    for row, given in told[1:]:
        first, other = told[0]
        loopback = row.rank == 0 or first.rank == 0
        if given.sure in (other.sure, row.name):  # its own name: another rule tells
            continue
        if loopback and any(look.is_loopback(each.sure or "") for each in (given, other)):
            continue
        yield LintFinding(
            span=given.span,
            summary=f"{what} is {other.sure} on {first.name} and {given.sure} on {row.name}",
            happens="They look for each other at different places, and wait until the time-out.",
            fix=f"Write one value for all nodes, such as {other.sure}.",
        )
        return


def _counts(table: NodeTable) -> Iterator[LintFinding]:
    totals = [(row, row.launch.text("num-processes")) for row in table.rows if row.launch.launcher == "accelerate"]
    for row, total in totals[1:]:
        if total != totals[0][1] and total is not None and totals[0][1] is not None:
            option = row.launch.option("num-processes")
            assert option is not None
            yield LintFinding(
                span=option.span,
                severity="warning",
                summary=f"num_processes, the total of all machines, is {totals[0][1]} on {totals[0][0].name}"
                f" and {total} on {row.name}",
                happens="Each divides its own number by num_machines: one machine starts fewer ranks than the other.",
                fix=f"Write {option.written} {totals[0][1]} on all machines.",
            )
            return
    if not table.is_seen and not table.by_hand:
        return
    told = [row for row in table.rows if row.world is not None]
    for row in told[1:]:
        if row.world != told[0].world:
            what = "the world's size" if table.by_hand else "the number of nodes"
            yield LintFinding(
                span=row.span,
                summary=f"{what} is {told[0].world} on {told[0].name} and {row.world} on {row.name}",
                happens="Each waits for as many as it was told: some never come, or the others are turned away.",
                fix="Write the same number on all of them.",
            )
            return


_NODE = lazy_re(r"(?:this_?)?(?:node|machine|host)_?(?:no|nr|num)?", re.IGNORECASE)
_TAKEN = lazy_re(
    r"^[ \t]*(?:export[ \t]+|declare[ \t]+-?\w*[ \t]*)?([A-Za-z_]\w*)="
    r"[\"']?(?:\$\{?(?:\d|[A-Za-z_]\w*)(?::[?=-][^}\n]*)?\}?)"
    r"[\"']?[ \t]*(?:#[^\n]*)?$",
    re.MULTILINE | re.ASCII,
)
_UNUSED = (
    "#!/bin/bash\nNODE_RANK=${1:?number of this node}\ntorchrun --nnodes=4 --nproc-per-node=8 --node-rank={"
    "} --master-addr=10.20.0.11 --master-port=61234 train.py\n"
)


@rule(
    "R18",
    title="The number of the node that a script takes is the one it hands on",
    severity="warning",
    source="our own inference: a number that is asked for and not used, beside a node rank that is a constant",
    leads_to=("launcher-world-mismatch",),
    bad=(_UNUSED.replace("{}", "0"), _UNUSED.replace("${1:?number of this node}", "$SLURM_NODEID").replace("{}", "1")),
    good=(
        _UNUSED.replace("{}", "$NODE_RANK"),
        _UNUSED.replace("NODE_RANK=${1:?number of this node}\n", "").replace("{}", "0"),
    ),
)
def node_number_not_handed_on(job: LintJob) -> Iterator[LintFinding]:
    """A script that is told its node's number, as its first word or by a variable, and hands a constant on, is the same
    node wherever it runs."""
    if job.kind not in ("shell", "sbatch") or job.node_sections:
        return
    for launch in job.launches[: look.SIBLINGS]:
        given = value(launch, "node-rank") if look.meets(launch) else None
        nodes = look.nnodes(launch)
        if given is None or look.number(given) is None or not look.is_static(launch):
            continue
        if any(is_node_rank(expansion.name) for expansion in given.word.expansions):
            continue
        if launch.invocation.in_loop or launch.invocation.conditional or (nodes is not None and nodes[1] < 2):
            continue
        for match in _TAKEN.finditer(job.text):
            name = match[1]
            used = re.search(rf"\$\{{?{name}\b", job.text[: match.start()] + job.text[match.end() :])
            if (
                (is_node_rank(name) or _NODE.fullmatch(name))
                and not used
                and not name.upper().startswith(("RANK", "LOCAL"))
            ):
                yield LintFinding(
                    span=given.span,
                    summary=f"{given.written} is {look.number(given)}, and {name}, which the script is told, is unused",
                    happens="Wherever it runs, it is the same node: EADDRINUSE, or all wait for the missing ranks.",
                    fix=f"Hand it on: {given.written.split('=')[0]} ${name}.",
                )
                return
