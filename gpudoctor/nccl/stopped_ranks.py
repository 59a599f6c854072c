"""A rank that was stopped, killed or crashed, a rank with an error of its own, a node that was lost."""

import re
import signal
from collections.abc import Iterator, Mapping

from gpudoctor.causes import CAUSES
from gpudoctor.check import Fix
from gpudoctor.command import command
from gpudoctor.fleet.names import folded
from gpudoctor.hang.report import HangCause
from gpudoctor.knowledge.wording import GIB, size
from gpudoctor.nccl import story
from gpudoctor.nccl.as_job import shown
from gpudoctor.nccl.finding import Finding
from gpudoctor.nccl.result import RunResult
from gpudoctor.snapshot import Reading, Snapshot, read
from gpudoctor.symptoms.in_text import Shown, symptoms

SMALL_SHARED_MEMORY_BYTES = GIB
"""NCCL's advice for containers is --shm-size=1g (its user guide, Docker); Docker's default is 64 MiB."""
SIGBUS = getattr(signal, "SIGBUS", 7)
LOST = "node-lost"
LIST_STOPPED = command("ps -eo pid,ppid,stat,user,args | awk '$3 ~ /^[Tt]/'")


def by_the_rules_of_hang(run: RunResult, snapshots: Mapping[str, Snapshot]) -> Iterator[Finding]:
    """What `gpudoctor hang` would say of these processes: ranks that were stopped, killed or wait in the kernel, ways
    between nodes that are closed, ..."""
    nodes = {rank.state.rank: rank for rank in story.ranks(run)}
    for cause in shown(run):
        if cause.cause == LOST:
            continue  # `lost_nodes` tells it by the test's own connections
        some = [nodes[number] for number in cause.ranks if number in nodes]
        where = story.nodes_of(some)
        if not some or CAUSES[cause.cause].blame == "fabric":
            where = _named(cause, where, run)
        id, fix = cause.cause, cause.fix
        what, _, rest = cause.summary.partition(";")
        if some:
            phases = {rank.state.phase for rank in some}
            what += f" on {folded(where)}" if folded(where) not in what else ""
            what += f" {story.in_phase(some[0].state.phase)}" if len(phases) == 1 else ""
        if id == "stopped-rank":
            fix = Fix(fix.text, (LIST_STOPPED,))  # its own lines name processes that the test has ended since
        readings: list[Reading[object]] = []
        machine = snapshots.get(where[0])
        if id == "rank-died" and machine is not None:
            number = some[0].state.status if some else 0
            host = machine.host
            if number == signal.SIGKILL:
                readings = [host.memory_available_bytes, host.cgroup]
            space = host.shared_memory.value_or(None)
            if number == SIGBUS and space is not None and space.total_bytes < SMALL_SHARED_MEMORY_BYTES:
                id, fix, readings = "shm-too-small", CAUSES["shm-too-small"].fix, [host.shared_memory]
                what += f"; /dev/shm has {size(space.total_bytes)} there, 1 GiB is wanted"
        yield story.blamed(
            id,
            f"{what};{rest}" if rest else what,
            run,
            where,
            cause.ranks,
            meaning=f"{CAUSES[id].meaning if id != cause.cause else cause.meaning} {story.others(run, some)}",
            fix=fix,
            evidence=[
                *(read(seen.source, seen.text) for seen in cause.evidence),
                *map(story.phase_reading, some[:4]),
                *readings,
            ],
        )


def _named(cause: HangCause, also: tuple[str, ...], run: RunResult) -> tuple[str, ...]:
    """The nodes that its evidence speaks of, and these; all where there are none."""
    text = " ".join(seen.source for seen in cause.evidence)
    pattern = r"(?:on|node) {}(?: |$)"
    named = (node for node in run.nodes if node in also or re.search(pattern.format(re.escape(node)), text))
    return tuple(named) or run.nodes


def ended_launchers(run: RunResult, snapshots: Mapping[str, Snapshot]) -> Iterator[Finding]:
    """Torchruns that a signal ended which the doctor had not sent."""
    for end in run.ends:
        if end.error.startswith("torchrun was ended by "):
            yield story.blamed(
                "rank-died",
                f"{end.error.partition(';')[0].replace('torchrun', f'torchrun on {end.node}', 1)}",
                run,
                [end.node],
                meaning="Its ranks ended with it, and a training job there would have, too: somebody else sent the "
                "signal, such as a scheduler at a limit of time or memory, the OOM killer, or a person.",
                fix=CAUSES["rank-died"].remedy("killed"),
                evidence=[story.launcher_reading(end)],
            )


def lost_nodes(run: RunResult, snapshots: Mapping[str, Snapshot]) -> Iterator[Finding]:
    """Nodes whose connection ended, or that did not answer the order to stop."""
    for end in run.ends:
        if end.how == "lost":
            silent = end.error.startswith("no answer")
            yield story.blamed(
                LOST,
                f"{end.node} was lost while the test ran: {end.error}",
                run,
                [end.node],
                meaning="Its ranks can no longer be seen; they end by themselves when they notice. "
                + (
                    "The connection is still there and nothing comes over it: the node hangs, or it is so short of "
                    "memory or processors that it cannot answer."
                    if silent
                    else "The connection, the agent on that node, or the node itself has ended."
                ),
                evidence=[read(f"connection to {end.node}", end.error)],
            )


def own_errors(run: RunResult, snapshots: Mapping[str, Snapshot]) -> Iterator[Finding]:
    """Exceptions that are not about others, and causes that a rank's log names; equal ones of many ranks once."""
    known: dict[str, tuple[Shown, list[story.TestedRank]]] = {}
    for rank in story.ranks(run):
        for entry in symptoms(f"{rank.state.error}\n{rank.state.log}"):
            if entry.symptom.role == "cause":
                known.setdefault(entry.symptom.cause, (entry, []))[1].append(rank)
    for cause, (entry, some) in known.items():
        where = story.nodes_of(some)
        yield story.blamed(
            cause,
            f"{story.rank_names(some)} on {folded(where)}: {entry.seen}",
            run,
            where,
            story.numbers_of(some),
            fix=entry.fix,
            evidence=(
                read(f"log of rank {some[0].state.rank} on {some[0].node}", entry.line),
                *story.evidence(some[:1]),
            ),
        )
    if known:
        return
    failed: dict[str, list[story.TestedRank]] = {}
    for rank in story.ranks(run):
        if rank.state.ended == "exit" and not story.complains(rank.state.error):
            failed.setdefault(rank.state.error, []).append(rank)
    for error, some in failed.items():
        yield _failed(error, some, run)
    for end in run.ends:
        if end.how == "failed" and end.error and not story.complains(end.error):
            yield story.blamed(
                "rank-not-started",
                f"torchrun failed on {end.node}: {end.error.splitlines()[0][:300]}",
                run,
                [end.node],
                evidence=[story.launcher_reading(end)],
            )


def _failed(error: str, some: list[story.TestedRank], run: RunResult) -> Finding:
    first = some[0]
    words = error.splitlines()[0] if error else f"exit status {first.state.status}, and nothing was said"
    where = story.nodes_of(some)
    return story.blamed(
        "rank-died",
        f"{story.rank_names(some)} on {folded(where)} failed {story.in_phase(first.state.phase)}: {words[:300]}",
        run,
        where,
        story.numbers_of(some),
        meaning=f"A training job would end or hang with the same error there. {story.others(run, some)}",
        fix=CAUSES["rank-died"].remedy("exception"),
        evidence=[story.error_reading(first), story.phase_reading(first)],
    )
