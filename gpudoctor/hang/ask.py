"""Asks a fleet's agents for the processes of its jobs, and for what they do: the head's side of `gpudoctor hang`."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec import structs

from gpudoctor import __version__
from gpudoctor.active import Waiting
from gpudoctor.fleet.clocks import clock_offsets
from gpudoctor.fleet.fleet import Fleet, Lost
from gpudoctor.fleet.messages import FindRanks, LookAt, LookedAt, RanksFound
from gpudoctor.fleet.names import folded
from gpudoctor.hang.find import masters
from gpudoctor.hang.job import Members
from gpudoctor.named import told
from gpudoctor.read.job import recorder
from gpudoctor.read.job.sources import Sources
from gpudoctor.read.job.wanted import Wanted
from gpudoctor.snapshot.evidence import (
    Evidence,
    NodeEvidence,
    NodeProcesses,
    Process,
    ProcessEvidence,
    Recorder,
    SourceContext,
    Unread,
)

FIND_SECONDS = 15.0
"""The answer takes a tenth of a second; a node whose disk or processors are overloaded, seconds."""
MARGIN_SECONDS = 6.0
"""What an agent may need on top of an order's time: a node on which everything waits for a processor."""
DUMP_SECONDS = 14.0
"""In which a rank may write its flight recorder: what it takes (recorder.PIPE_ANSWERS_IN), from its environment on."""
PROGRAM_SECONDS = 8.0
"""In which the program of dumps is read: some lines of a few files, 20 ms each."""
PATIENCE_SECONDS = 30.0
"""How much longer an agent is waited for that still answers pings."""


class Processes(NamedTuple):
    """The first look at all nodes."""

    nodes: tuple[NodeProcesses, ...]
    """By the fleet's index; a lost node has no processes."""
    lost: dict[str, str]
    unread: tuple[Unread, ...] = ()


def processes(
    fleet: Fleet, *, timeout: float = FIND_SECONDS, waiting: Waiting | None = None, alone: int | None = None
) -> Processes:
    """Every process of the nodes that belongs to a job, or may. `alone`: of this machine also this one, where it is a
    Python that belongs to none: a program without ranks."""
    answers = fleet.ask(
        FindRanks(to=fleet.present, alone=alone if alone and fleet.how == "local" else 0),
        RanksFound,
        timeout=timeout,
        patience=PATIENCE_SECONDS,
        of=fleet.present,
        waiting=waiting,
    )
    nodes: list[NodeProcesses] = []
    lost = lost_nodes(fleet)
    others = [node for node in fleet.other_versions if node not in fleet.lost]
    unread: list[Unread] = []
    if others:
        where = folded([fleet.name(node) for node in others])
        unread.append(
            Unread(f"what only gpudoctor {__version__} reads", f"{fleet.other_versions[others[0]]} runs on {where}")
        )
    for index in range(len(fleet.nodes)):
        answer = answers.get(index)
        node_processes = NodeProcesses(hostname=fleet.name(index))
        if isinstance(answer, RanksFound):
            try:
                node_processes = msgspec.json.decode(answer.found, type=NodeProcesses)
            except msgspec.DecodeError as error:
                lost.setdefault(fleet.name(index), f"its answer could not be understood: {told(error)}"[:200])
        elif isinstance(answer, Lost):
            lost.setdefault(fleet.name(index), answer.words)
        unread += node_processes.unread
        nodes.append(node_processes)
    return Processes(tuple(nodes), lost, tuple(unread))


def look(
    fleet: Fleet,
    members: Sequence[Members],
    *,
    seconds: float = 2.5,
    native: bool = False,
    dumps: str = "",
    timeout: float = 8.0,
    connect: bool | None = None,
    waiting: Waiting | None = None,
) -> Evidence:
    """Look at these jobs twice, `seconds` apart, on all nodes of the fleet: a node without a rank matters too.

    `dumps`: a folder of flight recorders on this machine. `connect`: as in the order; without, where nodes were named.
    """
    named = fleet.how != "local" if connect is None else connect
    offsets = clock_offsets(fleet)
    wanted = order_for(members, seconds=seconds, native=native, timeout=timeout)
    present = fleet.present
    answers = fleet.ask(
        LookAt(to=present, wanted=structs.replace(wanted, connect=named, for_dumps=DUMP_SECONDS)),
        LookedAt,
        timeout=max(timeout, DUMP_SECONDS) + MARGIN_SECONDS,
        patience=PATIENCE_SECONDS,
        of=present,
        waiting=waiting,
    )
    before = {
        (member.node, member.process.pid, member.process.started): member.process
        for job in members
        for member in job.members
    }
    nodes: list[NodeEvidence] = []
    lost = lost_nodes(fleet)
    for index in range(len(fleet.nodes)):
        answer = answers.get(index)
        name = fleet.name(index)
        if isinstance(answer, LookedAt):
            try:
                node = msgspec.json.decode(answer.evidence, type=NodeEvidence)
            except msgspec.DecodeError as error:
                lost.setdefault(name, f"its answer could not be understood: {told(error)}"[:200])
                continue
            nodes.append(
                structs.replace(
                    node,
                    name=name,
                    clock_offset_seconds=round(offsets[index].seconds, 4) if index in offsets else None,
                    processes=tuple(_with_first_look(process, index, before) for process in node.processes),
                )
            )
        elif isinstance(answer, Lost):
            lost.setdefault(name, answer.words)
    nodes += [_unseen(name, why, index, members) for index, (name, why) in _of_nobody(fleet, lost, nodes, members)]
    loose, unread = _of_folder(fleet, dumps, waiting) if dumps else ((), ())
    program = _program_of(loose) if loose else ()
    return Evidence(
        gpudoctor=__version__,
        time=time.time(),
        nodes=tuple(nodes),
        lost=lost,
        dumps=loose,
        sources=program,
        unread=unread,
    )


def _program_of(dumps: Sequence[Recorder]) -> tuple[SourceContext, ...]:
    """What the program says at the lines that dumps name, where its files are on this machine as they were."""
    sources = Sources()
    try:
        return sources.left(dumps, time.monotonic() + PROGRAM_SECONDS)
    finally:
        sources.end()


def _of_folder(fleet: Fleet, folder: str, waiting: Waiting | None) -> tuple[tuple[Recorder, ...], tuple[Unread, ...]]:
    def tell() -> None:
        fleet.keep_alive()  # an agent without orders takes us for gone
        if waiting is not None:
            waiting(["the flight recorders"])

    return recorder.of_folder(folder, tell)


def _of_nobody(
    fleet: Fleet, lost: Mapping[str, str], nodes: Sequence[NodeEvidence], members: Sequence[Members]
) -> Iterator[tuple[int, tuple[str, str]]]:
    """The nodes that could not be looked at, where no other has shown a process: the jobs are still there."""
    if any(node.processes for node in nodes):
        return
    for index in sorted({member.node for job in members for member in job.members}):
        name = fleet.name(index)
        if name in lost:
            yield index, (name, lost[name])


def _unseen(name: str, why: str, index: int, members: Sequence[Members]) -> NodeEvidence:
    """What the first look has seen of a node that gave no answer to the second."""
    seen = {member.process.pid: member.process for job in members for member in job.members if member.node == index}
    return NodeEvidence(
        name=name,
        hostname=name,
        processes=tuple(ProcessEvidence(process=process) for process in seen.values()),
        unread=(Unread("its processes, a second time", why),),
    )


def order_for(members: Sequence[Members], *, seconds: float, native: bool = False, timeout: float) -> Wanted:
    """What has these jobs looked at."""
    pids: dict[str, dict[int, int]] = {}
    ranks: dict[str, dict[str, int]] = {}
    addresses: dict[str, None] = {}
    ports: dict[int, None] = {}
    for job in members:
        for member in job.members:
            node = str(member.node)
            pids.setdefault(node, {})[member.process.pid] = member.process.started
            if member.role == "rank" and member.rank is not None:
                ranks.setdefault(node, {})[str(member.process.pid)] = member.rank
        named, used = masters(job)
        addresses.update(dict.fromkeys(named))
        ports.update(dict.fromkeys(used))
    return Wanted(
        pids={node: tuple(found.items()) for node, found in pids.items()},
        ranks=ranks,
        seconds=seconds,
        ports=tuple(ports),
        addresses=tuple(addresses),
        native=native,
        timeout=timeout,
    )


def _with_first_look(found: ProcessEvidence, node: int, before: dict[tuple[int, int, int], Process]) -> ProcessEvidence:
    """What only the first look saw of a process: it has ended since, or waits in the kernel now."""
    earlier = before.get((node, found.process.pid, found.process.started))
    if earlier is None:
        return found
    now = found.process
    gone = now.state == "X"
    if gone or not now.name or (now.state == "Z" and not now.command):
        kept = structs.replace(earlier, state=now.state or earlier.state, exit_code=now.exit_code)
    elif not now.environment_read and earlier.environment_read:
        kept = structs.replace(
            now,
            environment=earlier.environment,
            environment_read=True,
            command=now.command or earlier.command,
            communicates=earlier.communicates,
            alone=earlier.alone,
        )
    else:
        kept = structs.replace(now, communicates=earlier.communicates, alone=earlier.alone)
    return structs.replace(found, process=kept)


def lost_nodes(fleet: Fleet) -> dict[str, str]:
    """Nodes of the fleet that cannot be asked -> why."""
    return {fleet.name(index): lost.words for index, lost in sorted(fleet.lost.items())}
