"""A rank that was stopped, killed or crashed, a rank with an error of its own, a node that was lost."""

import signal
from collections.abc import Iterator, Mapping

from gpudoctor.active import signal_name
from gpudoctor.causes import CAUSES
from gpudoctor.check import Fix, Problem
from gpudoctor.command import command
from gpudoctor.fleet.names import folded
from gpudoctor.knowledge.wording import GIB, counted, size
from gpudoctor.nccl import story
from gpudoctor.nccl.as_job import shown
from gpudoctor.nccl.finding import Finding
from gpudoctor.nccl.result import NodeRanks, RunResult
from gpudoctor.snapshot import Reading, Snapshot, read
from gpudoctor.symptoms.in_text import Shown, symptoms

SMALL_SHARED_MEMORY_BYTES = GIB
"""NCCL's advice for containers is --shm-size=1g (its user guide, Docker); Docker's default is 64 MiB."""
LIST_STOPPED = command("ps -eo pid,ppid,stat,user,args | awk '$3 ~ /^[Tt]/'")
ASKED_TO_END = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, getattr(signal, "SIGXCPU", 24))


def by_the_rules_of_hang(run: RunResult, snapshots: Mapping[str, Snapshot]) -> Iterator[Finding]:
    """What `gpudoctor hang` would say of these processes: ranks and torchruns that are stopped, ..."""
    nodes = {rank.state.rank: rank for rank in story.ranks(run)}
    launchers = [(end.node, end.torchrun.pid) for end in run.ends if end.torchrun is not None]
    for cause in shown(run):
        some = [nodes[number] for number in cause.ranks if number in nodes]
        where = story.nodes_of(some) or tuple(
            node for node, pid in launchers if f"(pid {pid} on {node})" in cause.summary
        )
        what, _, rest = cause.summary.partition(";")
        if some:
            phases = dict.fromkeys(rank.state.phase for rank in some)
            what += f" on {folded(where)}" + (f" {story.in_phase(next(iter(phases)))}" if len(phases) == 1 else "")
        yield story.blamed(
            cause.cause,
            f"{what};{rest}" if rest else what,
            run,
            where or run.nodes,
            cause.ranks,
            meaning=f"{CAUSES[cause.cause].meaning} {story.others(run, some)}The test has ended it.",
            fix=Fix(cause.fix.text, (LIST_STOPPED,)),  # its own lines name processes that the test has ended since
            evidence=[*(read(seen.source, seen.text) for seen in cause.evidence), *map(story.phase_reading, some[:4])],
        )


def ended_by_a_signal(run: RunResult, snapshots: Mapping[str, Snapshot]) -> Iterator[Finding]:
    """Ranks and torchruns that a signal ended which neither torchrun nor the doctor had sent."""
    for end in run.ends:
        for state in end.ranks:
            if state.ended == "signal":
                yield _killed(story.TestedRank(end.node, state), end, run, snapshots.get(end.node))
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


def _killed(rank: story.TestedRank, end: NodeRanks, run: RunResult, machine: Snapshot | None) -> Finding:
    number = rank.state.status
    cause, variant = "rank-died", "crashed"
    how = f"crashed with {signal_name(number)}"
    meaning = "A library or driver failed in it; Python raises no exception for that."
    more = ""
    evidence: list[Reading[object]] = [story.phase_reading(rank)]
    if number == signal.SIGKILL:
        variant, how = "killed", "was killed by SIGKILL"
        said = "No process can keep from that, and it says nothing. "
        if end.oom_kills:
            variant = "memory"
            oom = counted(end.oom_kills, "process", "processes")
            more = f"; the kernel's OOM killer ended {oom} there meanwhile"
            meaning = f"{rank.node} ran out of memory, or the rank's cgroup did. Training needs more than the test."
        elif end.oom_kills == 0:
            meaning = said + (
                "The kernel's OOM killer ended none there meanwhile, so a person, a scheduler or a container's runtime "
                "sent it."
            )
        else:
            meaning = said + (
                "The OOM killer, a scheduler, a container's runtime or a person sends it; how often the OOM killer "
                "acted was not readable there."
            )
        if end.oom_kills is not None:
            evidence.append(read(f"/proc/vmstat oom_kill on {rank.node}, growth", end.oom_kills))
        if machine is not None:
            evidence += [machine.host.memory_available_bytes, machine.host.cgroup]
    elif number in ASKED_TO_END:
        variant, how = "asked to end", f"was ended by {signal_name(number)}"
        meaning = "It was asked to end, by a scheduler (time limit, preemption) or a person."
    else:
        evidence += [story.stack_reading(rank)] if rank.state.stack else []
        evidence += [story.error_reading(rank)] if rank.state.error else []
        if number == getattr(signal, "SIGBUS", 7) and machine is not None:
            evidence.append(machine.host.shared_memory)
            space = machine.host.shared_memory.value_or(None)
            if space is not None and space.total_bytes < SMALL_SHARED_MEMORY_BYTES:
                cause, variant, meaning = "shm-too-small", "", CAUSES["shm-too-small"].meaning
                more = f"; /dev/shm has {size(space.total_bytes)} there, 1 GiB is wanted"
    return story.blamed(
        cause,
        f"{rank.name} {how} {story.in_phase(rank.state.phase)}{more}",
        run,
        [rank.node],
        [rank.state.rank],
        meaning=f"{meaning} {story.others(run, [rank])}",
        fix=CAUSES[cause].remedy(variant),
        evidence=evidence,
    )


def lost_nodes(run: RunResult, snapshots: Mapping[str, Snapshot]) -> Iterator[Finding]:
    """Nodes whose connection ended, or that did not answer the order to stop."""
    for end in run.ends:
        if end.how == "lost":
            silent = end.error.startswith("no answer")
            yield story.blamed(
                "node-lost",
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
                known.setdefault(entry.symptom.id, (entry, []))[1].append(rank)
    for id, (entry, some) in known.items():
        source = f"log of rank {some[0].state.rank} on {some[0].node}"
        yield Finding(
            id=id,
            nodes=story.nodes_of(some),
            ranks=story.numbers_of(some),
            problem=Problem(
                severity="error",
                summary=f"{story.rank_names(some)} on {folded(story.nodes_of(some))}: {entry.seen}",
                meaning=entry.meaning,
                fix=entry.fix,
                evidence=(read(source, entry.line), *story.evidence(some[:1])),
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
