"""The table of nodes: what each node of a start would run, whatever the start is.

Lines for several nodes (`#@ node`, comments, prompts, ssh loops) and ranks that are handed out by hand are there as
they stand. A text that every node runs and that asks which node it is (`case $(hostname)`, `[ "$HOSTNAME" = a ]`, a sum
of SLURM_NODEID in the tasks of srun) is read once as each of them, as `courses` follows a program as each of its ranks.
"""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct, structs

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import hand_ranks, look
from gpudoctor.lint.look import Value, value
from gpudoctor.lint.model import LintJob, LintLaunch, Span
from gpudoctor.lint.once import once_a_job

MOST_SEATS = 8
MOST_TEXT = 1 << 15
"""Longer texts are not read once for each node."""
_HOST = (
    r"\$\((?:/bin/)?hostname(?: -[sf])?\)|`hostname(?: -[sf])?`|\$\(uname -n\)|\$\{?(?:HOSTNAME|HOST)\b[^}\s\"';]*\}?"
)
_NAMED = lazy_re(rf"^[ \t]*(?:export |local )?(\w+)=[\"']?(?:{_HOST})[\"']?[ \t]*(?:[;#\n]|$)", re.MULTILINE)
_CASE = lazy_re(r"\bcase[ \t]+([^\n]*?)[ \t]+in\b(.*?)\besac\b", re.DOTALL)
_PATTERN = lazy_re(r"(?:^|;;|\n)[ \t]*\(?([\w.\"'| \t-]+)\)")
_PLAIN = lazy_re(r"[A-Za-z0-9][\w.-]*", re.ASCII)
_OTHERS = ("another-host", "a-third-host")
_AS_RANK = lazy_re(
    r"--(?:node|machine)[-_]rank[= ][\"']?\\*\$\{?SLURM_(?:NODEID|PROCID)\}?(?![\w\[])|^[ \t]*#[^\n]*", re.MULTILINE
)
"""The number itself, handed on as the rank: each node has its own then, without reading the text as each."""
_IN_TASKS = lazy_re(r"SLURM_(?:NODEID|PROCID)\b")


class NodeSeat(Struct, frozen=True):
    """A node as which a text is read."""

    name: str
    variables: dict[str, str]


class NodeRow(Struct, frozen=True):
    """What one node would run."""

    name: str
    launch: LintLaunch
    rank: int | None
    """Its node rank, or its rank where ranks are handed out by hand; None: not known, or the rendezvous gives it."""
    world: int | None
    """How many nodes, or ranks, it is told."""
    span: Span
    """Where what is its own stands."""

    @property
    def master(self) -> Value | None:
        return look.master(self.launch)

    @property
    def port(self) -> Value | None:
        return look.port(self.launch)


class NodeTable(Struct, frozen=True):
    """The nodes that are meant to meet."""

    rows: tuple[NodeRow, ...]
    is_seen: bool
    """The text was read as each of them; else each has a line of its own."""
    by_hand: bool = False
    """The rows are ranks that plain starts are told, and not nodes of a launcher."""


@once_a_job
def tables(job: LintJob) -> tuple[NodeTable, ...]:
    """All of a text, by whatever tells its nodes apart."""
    return (*_lines(job), *_by_hand(job), *_read_as_each(job))


def _lines(job: LintJob) -> Iterator[NodeTable]:
    """Launches of which each node has a line of its own."""
    for world in look.worlds(job):
        if world.line_per_node and not look.on_one_machine(job, world):
            yield NodeTable(tuple(_row(_place(job, launch), launch) for launch in world.launches), is_seen=False)


def _place(job: LintJob, launch: LintLaunch) -> str:
    """The host's name, where the text has one."""
    host = look.host_of(launch)
    return host.rpartition("@")[2] if host is not None else look.label(job, launch).removeprefix("node ")


def _by_hand(job: LintJob) -> Iterator[NodeTable]:
    for group in hand_ranks.meetings(job):
        rows = tuple(
            NodeRow(look.label(job, each.launch), each.launch, each.rank, each.world, each.launch.invocation.span)
            for each in group
        )
        yield NodeTable(rows, is_seen=False, by_hand=True)


def _read_as_each(job: LintJob) -> Iterator[NodeTable]:
    from gpudoctor.lint.read import UnreadableText, read_job

    if job.kind not in ("shell", "sbatch") or len(job.text) > MOST_TEXT or job.facts.seat:
        return
    for seats in (_hosts(job), _tasks(job)):
        if len(seats) < 2:
            continue
        found: dict[tuple[int, str], list[NodeRow]] = {}
        for seat in seats:
            facts = structs.replace(job.facts, seat=seat.variables)
            try:
                read = read_job(job.text, facts, job.kind)
            except UnreadableText:
                return
            for launch in read.launches[: look.SIBLINGS]:
                if not look.meets(launch) or launch.invocation.in_loop or look.from_platform(job, launch):
                    continue
                key = (launch.invocation.words[0].span.start, launch.launcher)
                found.setdefault(key, []).append(_row(seat.name, launch))
        for rows in found.values():
            if len(rows) == len(seats) and _differ(rows):
                yield NodeTable(tuple(rows), is_seen=True)


def _row(name: str, launch: LintLaunch) -> NodeRow:
    told = value(launch, "node-rank") if look.is_static(launch) else None
    nodes = look.nnodes(launch)
    span = told.span if told is not None else launch.invocation.span
    for expansion in told.word.expansions if told is not None else ():
        setting = launch.invocation.settings.get(expansion.name)
        if setting is not None and setting.word.span.end > setting.word.span.start:
            span = setting.word.span
    return NodeRow(name, launch, look.number(told), nodes[1] if nodes is not None else None, span)


def _differ(rows: Sequence[NodeRow]) -> bool:
    """Whether the text does something with who runs it; else it says the same on all, and other rules judge it."""
    return len({_told(row) for row in rows}) > 1


def _told(row: NodeRow) -> tuple[object, ...]:
    launch = row.launch
    words = tuple(word.shown for word in launch.invocation.words)
    settings = sorted((name, each.word.shown) for name, each in launch.invocation.settings.items() if each.exported)
    return (*words, row.span.start, *settings)


def _hosts(job: LintJob) -> list[NodeSeat]:
    """The hosts that the text asks for by name, and those that it does not name."""
    if job.is_batch or job.node_sections or not re.search(_HOST, job.text):
        return []
    asked = rf"(?:{_HOST}" + "".join(rf"|\$\{{?{name}\b[^}}\s\"';]*\}}?" for name in _NAMED.findall(job.text)[:8]) + ")"
    named: list[str] = []
    open_end = False
    for case in _CASE.finditer(job.text):
        if re.fullmatch(rf"[\"']?{asked}[\"']?", case[1]):
            patterns = [each.strip(" \t\"'") for part in _PATTERN.findall(case[2]) for each in part.split("|")]
            named += [each for each in patterns if _PLAIN.fullmatch(each)]
    compared = rf"[\"']?{asked}[\"']?[ \t]*==?[ \t]*[\"']?([\w.-]+)[\"']?[ \t]*\]"
    for match in re.finditer(compared, job.text):
        named.append(match[1])
        open_end = True
    named = list(dict.fromkeys(named))[:MOST_SEATS]
    world = max((nodes[1] for launch in job.launches if (nodes := look.nnodes(launch)) is not None), default=0)
    others = _OTHERS[: max(0, min(world - len(named), 2))] if open_end and named else ()
    return [NodeSeat(name, {"HOSTNAME": name, "HOST": name}) for name in (*named, *others)] if named else []


def _tasks(job: LintJob) -> list[NodeSeat]:
    """The nodes on which srun starts one task each: the first ones and the last."""
    if not _IN_TASKS.search(_AS_RANK.sub("", job.text)):
        return []
    counts = {
        look.srun_nodes(job, launch)
        for launch in job.launches[: look.SIBLINGS]
        if look.in_a_task_shell(launch) and look.one_task_per_node(job, launch)
    }
    nodes = counts.pop() if len(counts) == 1 else None
    if nodes is None or nodes < 2:
        return []
    numbers = dict.fromkeys((0, 1, nodes - 1))
    return [
        NodeSeat(f"node {number}", {"SLURM_NODEID": str(number), "SLURM_PROCID": str(number), "SLURM_LOCALID": "0"})
        for number in numbers
    ]
