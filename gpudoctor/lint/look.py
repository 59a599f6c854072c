"""What rules ask of a `Job`: which starts belong to one training, on how many nodes a start runs, its rendezvous.

Pure functions, without judgement. "World" here: the starts that are meant to meet at one rendezvous.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec import Struct, structs

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.launch_settings import (  # what rules ask of one launch stands there
    TORCHRUN as TORCHRUN,
    Value as Value,
    backend as backend,
    endpoint as endpoint,
    header as header,
    is_dynamic as is_dynamic,
    is_loopback as is_loopback,
    is_static as is_static,
    master as master,
    may_hide_options as may_hide_options,
    nnodes as nnodes,
    number as number,
    origins as origins,
    port as port,
    split_endpoint as split_endpoint,
    standalone as standalone,
    traits as traits,
    value as value,
    whole as whole,
)
from gpudoctor.lint.model import Invocation, LintJob, LintLaunch, Span
from gpudoctor.lint.once import once_a_job

SHELLS = ("bash", "sh", "dash", "zsh", "ksh")
SERVICES = ("runai", "arena", "gantry", "beaker", "anyscale", "xpk", "ngc", "bcprun", "eai", "dsub")
"""Commands that hand a start to a service, which runs it in pods or machines of its own."""
SIBLINGS = 1024
"""Starts that are looked at in one text; a text with more is no script."""


def from_platform(job: LintJob, launch: LintLaunch) -> bool:
    """The start stands in a manifest, whose operator sets PET_* and MASTER_* in the pods, or is handed to a service
    that does so."""
    served = any(outer.program in SERVICES for outer in launch.invocation.within)
    return served or job.kind == "manifest" or bool(launch.invocation.manifest_path)


def sruns(launch: LintLaunch) -> tuple[LintLaunch, ...]:
    """The sruns around it, its own included where the program under it is the training itself."""
    own = (launch,) if launch.launcher == "srun" else ()
    return (*(around for around in launch.around if around.launcher == "srun"), *own)


def host_of(launch: LintLaunch) -> str | None:
    """The machine that the line itself names: of `ssh HOST`, `srun -w HOST`."""
    for outer in launch.invocation.within:
        if outer.program == "ssh":
            plain = [word for word in outer.words[1:] if not word.raw.startswith("-")]
            return plain[0].shown if plain else None
        if (host := _elsewhere(outer)) is not None:
            return host
    for around in sruns(launch):
        named = around.option("nodelist")
        if named is not None and named.value is not None:
            return named.value.shown
    return None


_OPTION = lazy_re(r"-(?:[a-z]*[nc]|-namespace|-container|-context)")


def _elsewhere(outer: Invocation) -> str | None:
    """The pod, virtual machine or docker host in which it runs: `kubectl exec POD --`, `gcloud compute ssh VM`."""
    shown = [word.shown for word in outer.words]
    if outer.program in ("kubectl", "oc") and "exec" in shown[1:4]:
        at = shown.index("exec") + 1
        while at < len(shown) and shown[at].startswith("-"):
            at += 2 if _OPTION.fullmatch(shown[at]) else 1
        return shown[at] if at < len(shown) else None
    if outer.program == "gcloud" and "ssh" in shown[1:6]:
        plain = [word for word in shown[shown.index("ssh") + 1 :] if not word.startswith("-")]
        return plain[0] if plain and "--worker=all" not in shown else None
    if outer.program == "docker":
        before = (
            shown[1 : shown.index("exec")]
            if "exec" in shown
            else shown[1 : shown.index("run")]
            if "run" in shown
            else []
        )
        return next((after for word, after in pairwise(before) if word in ("-H", "--host", "--context", "-c")), None)
    return None


def behind_unknown(launch: LintLaunch) -> bool:
    """`$RUN python train.py`: what stands in front may be srun, or nothing."""
    return any(outer.words and outer.words[0].text is None for outer in launch.invocation.within)


def section_node(job: LintJob, launch: LintLaunch) -> int | None:
    """The node that the launch is written for, by its section."""
    index = launch.invocation.section
    section = job.sections[index] if index < len(job.sections) else None
    return section.node if section is not None and section.kind == "node" else None


def section_kind(job: LintJob, launch: LintLaunch) -> str:
    index = launch.invocation.section
    return job.sections[index].kind if index < len(job.sections) else "every"


def node_of(job: LintJob, launch: LintLaunch) -> int | str | None:
    """The node that takes this line, as far as the text says: its section's, of `if [ $NODE_RANK = 0 ]`, of ssh."""
    node = section_node(job, launch)
    if node is None:
        node = launch.invocation.node_guard
    return host_of(launch) if node is None else node


def fans_out(outer: Invocation) -> bool:
    """`pdsh -w n1,n2 COMMAND`: the same line on each of several hosts."""
    shown = [word.shown for word in outer.words]
    if outer.program in ("xargs", "parallel") and "ssh" in shown[1:]:
        return True
    if outer.program not in FANS:
        return False
    files = ("-h", "--hosts") if outer.program in ("pssh", "parallel-ssh") else ("-a", "-g")
    return bool(re.search(r"[,\[^]|\s", fanned(outer).strip())) or any(word in files for word in shown[1:8])


FANS = ("pdsh", "clush", "pssh", "parallel-ssh")


def fanned(outer: Invocation) -> str:
    """The list of hosts as it is written; empty where a file or a group holds them."""
    if outer.program not in FANS:
        return ""
    for word, after in pairwise(outer.words):
        hosts = after.shown if word.shown in ("-w", "-H") else word.shown[2:] if word.shown[:2] in ("-w", "-H") else ""
        if hosts:
            return hosts
    return ""


def says_every_node(job: LintJob, launch: LintLaunch) -> bool:
    """The text itself says that all nodes run this line: `#@ every node`, or srun over several nodes."""
    if node_of(job, launch) is not None:
        return False
    if any(fans_out(outer) for outer in launch.invocation.within):
        return True
    index = launch.invocation.section
    if index < len(job.sections) and job.sections[index].kind == "every":
        start = job.sections[index].start
        if "#@" in job.text[job.text.rfind("\n", 0, max(start - 1, 0)) + 1 : start]:
            return True
    return (srun_nodes(job, launch) or 1) > 1


def in_a_task_shell(launch: LintLaunch) -> bool:
    """srun starts a shell that starts the launcher: variables in it are each task's own."""
    programs = [outer.program for outer in launch.invocation.within]
    return "srun" in programs and any(program in SHELLS for program in programs[programs.index("srun") :])


def batch_nodes(job: LintJob) -> int | None:
    """Nodes that the batch job asks for; None when it does not say, or says a range."""
    option = job.sbatch.get("nodes")
    return whole(option.value) if option is not None and not option.ignored else None


def srun_nodes(job: LintJob, launch: LintLaunch) -> int | None:
    """Nodes that the srun around the launch starts it on; None without srun, or when nobody knows."""
    for around in sruns(launch):
        option = around.option("nodes")
        if option is not None:
            return whole(option.value.text if option.value else None)
        if around.option("nodelist") is not None:
            return None
        tasks = around.option("ntasks")
        if tasks is not None and tasks.value is not None and tasks.value.text == "1":
            return 1
        asked = header(job, launch, "nodes")
        return whole(asked.value) if asked is not None else None
    return None


def runs_on(job: LintJob, launch: LintLaunch) -> int | None:
    """On how many nodes this very line runs; None when it cannot be told."""
    if sruns(launch):
        return srun_nodes(job, launch)
    if job.is_batch or node_of(job, launch) is not None or section_kind(job, launch) == "job":
        return 1
    return job.facts.nodes


class LintWorld(Struct, frozen=True, kw_only=True):
    """The launches that are meant to meet at one rendezvous: one line for all nodes, or a line a node."""

    launches: tuple[LintLaunch, ...]
    nodes: int | None
    """Nodes that run them, as far as text and facts tell."""
    multi: bool | None = None
    """Whether the training is for several nodes; None: cannot be told."""

    @property
    def first(self) -> LintLaunch:
        return self.launches[0]

    @property
    def line_per_node(self) -> bool:
        return len(self.launches) > 1


def meets(launch: LintLaunch) -> bool:
    """The launch takes part in a rendezvous that the text describes, and runs on each node."""
    if launch.option("help", "version") is not None:
        return False
    kind = traits(launch)
    if kind.fans_out:
        return launch.option("no-ssh") is not None
    if kind.a_node:
        return True
    return any(value(launch, name) is not None for name in ("master-addr", "master-port", "node-rank"))


@once_a_job
def worlds(job: LintJob) -> tuple[LintWorld, ...]:
    """The n-th starts of all node sections belong together; so do neighbouring lines of one section with
    node ranks or hosts of their own; every other line is a world by itself, run by whoever runs the text."""
    lint_worlds: list[LintWorld] = []
    by_turn: dict[tuple[int, bool], list[LintLaunch]] = {}
    turns: dict[tuple[int, bool], int] = {}
    rest: dict[int, list[LintLaunch]] = {}
    for launch in job.launches[:SIBLINGS]:
        if not meets(launch):
            continue
        node = section_node(job, launch)
        if node is None:
            rest.setdefault(launch.invocation.section, []).append(launch)
        elif launch.invocation.node_guard is None or launch.invocation.node_guard == node:
            alone = standalone(launch)  # a step that each node does by itself does not shift the others
            turn = turns.get((launch.invocation.section, alone), 0)
            turns[launch.invocation.section, alone] = turn + 1
            by_turn.setdefault((turn, alone), []).append(launch)
    for together in by_turn.values():
        several = len(together) if len(together) > 1 else None
        lint_worlds.append(LintWorld(launches=tuple(together), nodes=job.facts.nodes or several))
    for launches in rest.values():
        for lines in _siblings(launches):
            if len(lines) > 1:
                lint_worlds.append(LintWorld(launches=lines, nodes=job.facts.nodes or len(lines)))
            else:
                lint_worlds.append(LintWorld(launches=lines, nodes=runs_on(job, lines[0])))
    return tuple(structs.replace(world, multi=_is_multi(job, world)) for world in lint_worlds)


def _siblings(launches: Sequence[LintLaunch]) -> Iterator[tuple[LintLaunch, ...]]:
    """Lines of one section that follow each other and are each for another node."""
    group: list[LintLaunch] = []
    seen: set[tuple[str, object]] = set()
    for launch in launches:
        place = _place(launch)
        if group and not (_fits(group[0], group[-1], launch) and place and place not in seen):
            yield tuple(group)
            group, seen = [], set()
        group.append(launch)
        if place:
            seen.add(place)
    if group:
        yield tuple(group)


def _place(launch: LintLaunch) -> tuple[str, object] | None:
    """What makes a line one node's: a host, a guard, a node rank; None when every node may run it."""
    host = host_of(launch)
    if host is not None:
        return ("host", host) if value(launch, "node-rank") is not None else None
    if launch.invocation.node_guard is not None:
        return "guard", launch.invocation.node_guard
    if is_dynamic(launch):
        return "agent", launch.invocation.span.start
    rank = number(value(launch, "node-rank"))
    if rank is None and launch.launcher == "python" and not launch.around:
        rank = _rank_by_hand(launch)
    return ("rank", rank) if rank is not None else None


def _rank_by_hand(launch: LintLaunch) -> int | None:
    """RANK of a plain start whose head is another machine's address: lines for several machines. On the loopback
    address they may be terminals of one."""
    rank, head = launch.invocation.settings.get("RANK"), value(launch, "master-addr")
    if rank is None or not rank.exported or head is None or head.sure is None or is_loopback(head.sure):
        return None
    return whole(rank.word.text)


def _fits(first: LintLaunch, last: LintLaunch, launch: LintLaunch) -> bool:
    if launch.launcher != first.launcher:
        return False
    nodes, mine = nnodes(first), nnodes(launch)
    if (nodes and nodes[1] == 1) or (mine and mine[1] == 1):
        return False
    places = [_place(first), _place(launch)]
    guarded = "guard" in [place[0] for place in places if place]
    if None in places or (places[0] or "")[0] != (places[1] or "")[0]:
        return guarded
    if places[0] and places[0][0] == "agent":
        return last.invocation.background and _meeting_place(first) == _meeting_place(launch)
    return True


def _meeting_place(launch: LintLaunch) -> tuple[str, str]:
    place, id = endpoint(launch), value(launch, "rdzv-id")
    return place.shown if place is not None else "", id.shown if id is not None else ""


def on_one_machine(job: LintJob, world: LintWorld) -> bool:
    """The lines run side by side on the machine that runs the text: several agents for a trial, not several nodes."""
    return world.line_per_node and all(
        node_of(job, launch) is None
        and not sruns(launch)
        and (launch.invocation.background or launch is world.launches[-1])
        for launch in world.launches
    )


def has_multi_node_start(job: LintJob) -> bool:
    """Some start is told a number of nodes; one that is not may then be a step that each node does by itself."""
    for launch in job.launches[:SIBLINGS]:
        nodes = nnodes(launch)
        if value(launch, "nnodes") is not None and not standalone(launch) and (nodes is None or nodes[1] > 1):
            return True
    return False


def is_multi(job: LintJob, world: LintWorld) -> bool | None:
    """Whether the training is for several nodes. None: cannot be told."""
    return world.multi


def _is_multi(job: LintJob, world: LintWorld) -> bool | None:
    """By --nnodes, else by who runs the lines."""
    if on_one_machine(job, world):
        return False
    counts = [nnodes(launch) for launch in world.launches]
    if any(count is not None and count[0] > 1 for count in counts):
        return True
    if any(count is not None and count[1] > 1 for count in counts):  # 1:4 begins on one machine too
        several = (world.nodes or 1) > 1 or world.line_per_node
        return True if several or any(says_every_node(job, launch) for launch in world.launches) else None
    if any(count is not None for count in counts):
        return False
    if world.nodes is not None and not any(value(launch, "nnodes") for launch in world.launches):
        return world.nodes > 1
    if world.nodes is not None and world.nodes > 1:
        return True
    if any(value(launch, "nnodes") is not None for launch in world.launches):
        return False if world.nodes == 1 else None
    ranks = [number(value(launch, "node-rank")) for launch in world.launches]
    return True if any(rank is not None and rank > 0 for rank in ranks) else None


def label(job: LintJob, launch: LintLaunch) -> str:
    """ "node 1", "host n1" or "line 7": the launch as a message names it."""
    node = section_node(job, launch)
    if node is None:
        node = launch.invocation.node_guard
    if node is not None:
        index = launch.invocation.section
        name = job.sections[index].name if index < len(job.sections) else ""
        named = job.sections[index].kind == "node" and bool(re.search(rf"#@[^\n]*\bnode {re.escape(name)}", job.text))
        return f"node {name}" if name and named else f"node {node}"
    host = host_of(launch)
    return f"host {host}" if host else f"line {launch.invocation.span.line}"


def labels(job: LintJob, launches: Sequence[LintLaunch]) -> str:
    """ "node 0 and node 1", "node 0, node 1 and 3 more"."""
    names = list(dict.fromkeys(label(job, launch) for launch in launches))
    if len(names) > 4:
        return ", ".join(names[:3]) + f" and {len(names) - 3} more"
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else names[0]


def head_span(launch: LintLaunch) -> Span:
    """Where to point when something is missing: the launcher's own word."""
    words = launch.invocation.words
    return words[0].span if words else launch.invocation.span


def count_text(launch: LintLaunch) -> str:
    """The number of nodes as the launcher is told it: "2", "$NNODES", "several"."""
    given = value(launch, "nnodes")
    return (given.text or given.shown) if given is not None else "several"


def tasks_per_node(job: LintJob, launch: LintLaunch) -> int | None:
    """Tasks that the srun around it starts on each node (1 where nobody asks for more); None when it is not known."""
    for around in sruns(launch):
        for name in ("ntasks-per-node", "ntasks"):
            option = around.option(name)
            batch = job.sbatch.get(name)
            if option is None and (batch is None or batch.ignored):
                continue
            text = batch.value if batch is not None else None
            if option is not None:
                text = option.value.text if option.value is not None else None
            tasks, nodes = whole(text), srun_nodes(job, launch)
            if name == "ntasks-per-node" or tasks is None:
                return tasks
            return -(-tasks // nodes) if nodes else None
        return 1
    return None


def one_task_per_node(job: LintJob, launch: LintLaunch) -> bool:
    """srun certainly starts one task on each node."""
    return tasks_per_node(job, launch) == 1


def neighbours(job: LintJob) -> Iterator[tuple[LintLaunch, LintLaunch]]:
    """Pairs that run at once on the same machine: one in the background, and the next one before any `wait`."""
    previous: list[LintLaunch] = []
    for launch in job.launches[:SIBLINGS]:
        if previous and previous[-1].invocation.section != launch.invocation.section:
            previous = []
        still = [lint_launch for lint_launch in previous[-8:] if not _waits(job, lint_launch, launch)]
        for lint_launch in still:
            if host_of(lint_launch) == host_of(launch) and not sruns(lint_launch) and not sruns(launch):
                guards = (lint_launch.invocation.node_guard, launch.invocation.node_guard)
                if guards[0] == guards[1]:
                    yield lint_launch, launch
        previous = [*still, launch] if launch.invocation.background else still


def _waits(job: LintJob, first: LintLaunch, second: LintLaunch) -> bool:
    end = second.invocation.span.start
    if first.invocation.span == second.invocation.span:  # a loop, unrolled
        end = job.text.find("done", first.invocation.span.end)
    between = job.text[first.invocation.span.end : end]
    return re.search(r"(?:^|[;&\n])[ \t]*wait\b", between) is not None
