"""A rank that was stopped, killed or crashed, a rank with an error of its own, a node that was lost."""

import signal
from collections.abc import Iterator, Mapping

from gpudoctor.active import signal_name
from gpudoctor.check import Fix, Problem
from gpudoctor.command import Command, command
from gpudoctor.fleet.names import folded
from gpudoctor.knowledge.nccl.symptom import Symptom
from gpudoctor.knowledge.nccl.symptoms import symptoms
from gpudoctor.knowledge.wording import GIB, counted, size
from gpudoctor.nccl import story
from gpudoctor.nccl.finding import Finding
from gpudoctor.nccl.result import NodeRanks, RunResult
from gpudoctor.snapshot import Reading, Snapshot, read

STOPPED = ("T", "t")
SMALL_SHARED_MEMORY_BYTES = GIB
"""NCCL's advice for containers is --shm-size=1g (its user guide, Docker); Docker's default is 64 MiB."""
LIST_STOPPED = command("ps -eo pid,ppid,stat,user,args | awk '$3 ~ /^[Tt]/'")


def stopped_processes(run: RunResult, snapshots: Mapping[str, Snapshot]) -> Iterator[Finding]:
    """Ranks, or torchruns, in state T: SIGSTOP, Ctrl-Z, a debugger, a scheduler's suspend."""
    for rank in story.ranks(run):
        if rank.state.process_state in STOPPED:
            traced = rank.state.process_state == "t"
            how = "held by a debugger (state t)" if traced else "stopped (state T)"
            yield Finding(
                id="rank-stopped",
                nodes=(rank.node,),
                ranks=(rank.state.rank,),
                problem=Problem(
                    severity="error",
                    summary=f"{rank.name} was {how} {story.in_phase(rank.state.phase)}",
                    meaning=f"A stopped process takes no part in a collective, and all others wait for it until a "
                    f"timeout ends the job. {story.others(run, [rank])}The test has ended it.",
                    fix=_let_go(rank.node, run),
                    evidence=(story.state_reading(rank), story.phase_reading(rank)),
                ),
            )
    for end in run.ends:
        if end.torchrun is not None and end.torchrun.process_state in STOPPED:
            yield Finding(
                id="torchrun-stopped",
                nodes=(end.node,),
                problem=Problem(
                    severity="error",
                    summary=f"torchrun (pid {end.torchrun.pid} on {end.node}) was stopped "
                    f"(state {end.torchrun.process_state})",
                    meaning="A stopped torchrun neither starts its ranks nor notices that they end, and the other "
                    "nodes wait for it. The test has ended it.",
                    fix=_let_go(end.node, run),
                    evidence=(read(f"/proc/{end.torchrun.pid}/stat on {end.node}", end.torchrun.process_state),),
                ),
            )


def _let_go(node: str, run: RunResult) -> Fix:
    return Fix(
        f"Find what stops processes on {node}: Ctrl-Z, a debugger, a scheduler that suspends jobs, a frozen cgroup. "
        "The command lists all that are stopped there now; kill -CONT and its number lets one go on.",
        (story.on(node, LIST_STOPPED, run),),
    )


def ended_by_a_signal(run: RunResult, snapshots: Mapping[str, Snapshot]) -> Iterator[Finding]:
    """Ranks and torchruns that a signal ended which neither torchrun nor the doctor had sent."""
    for end in run.ends:
        for state in end.ranks:
            if state.ended == "signal":
                rank = story.Rank(end.node, state)
                yield _killed(rank, end, run, snapshots.get(end.node))
        if end.error.startswith("torchrun was ended by "):
            yield Finding(
                id="torchrun-killed",
                nodes=(end.node,),
                problem=Problem(
                    severity="error",
                    summary=f"{end.error.partition(';')[0].replace('torchrun', f'torchrun on {end.node}', 1)}",
                    meaning="Its ranks ended with it, and a training job there would have, too: somebody else sent the "
                    "signal, such as a scheduler at a limit of time or memory, the OOM killer, or a person.",
                    fix=Fix("Look who ends processes there.", _who_kills(end.node, run)),
                    evidence=(story.launcher_reading(end),),
                ),
            )


def _killed(rank: story.Rank, end: NodeRanks, run: RunResult, machine: Snapshot | None) -> Finding:
    number = rank.state.status
    where = story.in_phase(rank.state.phase)
    waiting = story.others(run, [rank])
    by_kernel = number == signal.SIGKILL and end.oom_kills
    evidence: list[Reading[object]] = [story.phase_reading(rank)]
    if number == signal.SIGKILL:
        oom = counted(end.oom_kills or 0, "process", "processes")
        summary = f"{rank.name} was killed by SIGKILL {where}"
        if by_kernel:
            summary += f"; the kernel's OOM killer ended {oom} there meanwhile"
            meaning = f"{rank.node} ran out of memory, or the rank's cgroup did. Training needs more than the test. "
        elif end.oom_kills == 0:
            meaning = (
                "No process can keep from that, and it says nothing. The kernel's OOM killer ended none there "
                "meanwhile, so a person, a scheduler or a container's runtime sent it. "
            )
        else:
            meaning = (
                "No process can keep from that, and it says nothing. The OOM killer, a scheduler, a container's "
                "runtime or a person sends it; how often the OOM killer acted was not readable there. "
            )
        if end.oom_kills is not None:
            evidence.append(read(f"/proc/vmstat oom_kill on {rank.node}, growth", end.oom_kills))
        evidence += _memory(machine)
        text = (
            "Give the job more memory, or find what else takes it." if by_kernel else "Look who ends processes there."
        )
        fix = Fix(text, _who_kills(rank.node, run))
        return _ended(rank, "rank-killed", summary, meaning + waiting, fix, evidence)
    if number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, getattr(signal, "SIGXCPU", 24)):
        summary = f"{rank.name} was ended by {signal_name(number)} {where}"
        meaning = f"It was asked to end, by a scheduler (time limit, preemption) or a person. {waiting}"
        return _ended(
            rank, "rank-ended", summary, meaning, Fix("Look who ended it: the scheduler's log of this job."), evidence
        )
    if rank.state.stack:
        evidence.append(story.stack_reading(rank))
    if rank.state.error:
        evidence.append(story.error_reading(rank))
    summary = f"{rank.name} crashed with {signal_name(number)} {where}"
    if number == getattr(signal, "SIGBUS", 7) and machine is not None:
        evidence.append(machine.host.shared_memory)
        space = machine.host.shared_memory.value_or(None)
        if space is not None and space.total_bytes < SMALL_SHARED_MEMORY_BYTES:
            summary += f"; /dev/shm has {size(space.total_bytes)} there, 1 GiB is wanted"
            meaning = f"A full /dev/shm ends whoever writes to it with SIGBUS; NCCL and data loaders do. {waiting}"
            fix = Fix(
                "Give the container more: docker run --shm-size=8g or --ipc=host; on Kubernetes an emptyDir with "
                "medium Memory at /dev/shm.",
                (story.on(rank.node, command("df -h /dev/shm"), run),),
            )
            return _ended(rank, "rank-crashed", summary, meaning, fix, evidence)
    meaning = f"A library or driver failed in it; Python raises no exception for that. {waiting}"
    fix = Fix(
        "Examine that node, and compare its versions with those of the others.",
        (story.on(rank.node, command("gpudoctor check --deep"), run),),
    )
    return _ended(rank, "rank-crashed", summary, meaning, fix, evidence)


def _ended(rank: story.Rank, id: str, summary: str, meaning: str, fix: Fix, evidence: list[Reading[object]]) -> Finding:
    return Finding(
        id=id,
        nodes=(rank.node,),
        ranks=(rank.state.rank,),
        problem=Problem(severity="error", summary=summary, meaning=meaning.strip(), fix=fix, evidence=tuple(evidence)),
    )


def _memory(machine: Snapshot | None) -> list[Reading[object]]:
    return [] if machine is None else [machine.host.memory_available_bytes, machine.host.cgroup]


def _who_kills(node: str, run: RunResult) -> tuple[Command, ...]:
    return (
        story.on(node, command("sudo dmesg -T | grep -iE 'out of memory|oom-kill|killed process' | tail"), run),
        story.on(node, command("free -h"), run),
    )


def lost_nodes(run: RunResult, snapshots: Mapping[str, Snapshot]) -> Iterator[Finding]:
    """Nodes whose connection ended, or that did not answer the order to stop."""
    for end in run.ends:
        if end.how == "lost":
            silent = end.error.startswith("no answer")
            yield Finding(
                id="node-lost",
                nodes=(end.node,),
                problem=Problem(
                    severity="error",
                    summary=f"{end.node} was lost while the test ran: {end.error}",
                    meaning="Its ranks can no longer be seen; they end by themselves when they notice. "
                    + (
                        "The connection is still there and nothing comes over it: the node hangs, or it is so short of "
                        "memory or processors that it cannot answer."
                        if silent
                        else "The connection, the agent on that node, or the node itself has ended."
                    ),
                    fix=Fix(
                        "See whether the node is up, and what its log says of that time.",
                        (story.on(end.node, command("uptime; sudo dmesg -T | tail -n 40"), run),),
                    ),
                    evidence=(read(f"connection to {end.node}", end.error),),
                ),
            )


def own_errors(run: RunResult, snapshots: Mapping[str, Snapshot]) -> Iterator[Finding]:
    """Exceptions that are not about others, and causes that a rank's log names; equal ones of many ranks once."""
    known: dict[str, list[story.Rank]] = {}
    found: dict[str, Symptom] = {}
    for rank in story.ranks(run):
        for symptom in symptoms(f"{rank.state.error}\n{rank.state.log}"):
            if symptom.weight == "cause":
                known.setdefault(symptom.id, []).append(rank)
                found.setdefault(symptom.id, symptom)
    for id, some in known.items():
        symptom = found[id]
        source = f"log of rank {some[0].state.rank} on {some[0].node}"
        yield Finding(
            id=id,
            nodes=story.nodes_of(some),
            ranks=story.numbers_of(some),
            problem=Problem(
                severity="error",
                summary=f"{story.rank_names(some)} on {folded(story.nodes_of(some))}: {symptom.seen}",
                meaning=symptom.cause,
                fix=Fix(symptom.fix, symptom.commands),
                evidence=(read(source, symptom.line), *story.evidence(some[:1])),
            ),
        )
    if known:
        return
    failed: dict[str, list[story.Rank]] = {}
    for rank in story.ranks(run):
        if rank.state.ended == "exit" and not story.complains(rank.state.error):
            failed.setdefault(rank.state.error, []).append(rank)
    for error, some in failed.items():
        yield _failed(error, some, run)
    for end in run.ends:
        if end.how == "failed" and end.error and not story.complains(end.error):
            yield Finding(
                id="torchrun-failed",
                nodes=(end.node,),
                problem=Problem(
                    severity="error",
                    summary=f"torchrun failed on {end.node}: {end.error.splitlines()[0][:300]}",
                    meaning="Its ranks did not start, and those of the other nodes wait at the rendezvous.",
                    fix=Fix("Examine that node.", (story.on(end.node, command("gpudoctor check pytorch"), run),)),
                    evidence=(story.launcher_reading(end),),
                ),
            )


def _failed(error: str, some: list[story.Rank], run: RunResult) -> Finding:
    first = some[0]
    words = error.splitlines()[0] if error else f"exit status {first.state.status}, and nothing was said"
    return Finding(
        id="rank-failed",
        nodes=story.nodes_of(some),
        ranks=story.numbers_of(some),
        problem=Problem(
            severity="error",
            summary=f"{story.rank_names(some)} on {folded(story.nodes_of(some))} failed "
            f"{story.in_phase(first.state.phase)}: {words[:300]}",
            meaning=f"A training job would end or hang with the same error there. {story.others(run, some)}".strip(),
            fix=Fix(
                "Examine that node; where only some nodes fail, compare it with one that does not.",
                (story.on(first.node, command("gpudoctor check"), run),),
            ),
            evidence=(story.error_reading(first), story.phase_reading(first)),
        ),
    )
