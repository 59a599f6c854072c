"""A launch as `hang` sees any job: ranks and launchers as evidence, so that hang's rules conclude about them too."""

import re

from gpudoctor.hang.conclude import conclude_job
from gpudoctor.hang.job import HangJob, Launcher, Rank
from gpudoctor.hang.report import HangCause
from gpudoctor.knowledge.places import main_thread, place_of
from gpudoctor.nccl.result import NodeRanks, RunResult
from gpudoctor.snapshot.evidence import Evidence, Frame, NodeEvidence, Process, ProcessEvidence, Sample, Socket, Thread
from gpudoctor.sure import SHOWN

_FRAME = re.compile(r"(?P<function>.*) \((?P<file>[^():]*):(?P<line>\d{1,9})\)")


def shown(run: RunResult) -> tuple[HangCause, ...]:
    """What hang's rules say of the processes, as far as it is shown: one look does not tell what moves."""
    report = conclude_job(job_of(run))
    return tuple(cause for cause in report.causes if cause.confidence >= SHOWN)


def job_of(run: RunResult) -> HangJob:
    """The ranks that had not ended, and the launchers. How a rank ended is told by torchrun, not by its process."""
    nodes = {end.node: _node(end) for end in run.ends}
    ranks = [
        _rank(state.rank, state.local_rank, nodes[end.node], process)
        for end in run.ends
        for state, process in zip(end.ranks, nodes[end.node].processes, strict=False)
        if not state.ended
    ]
    launchers = [
        Launcher(
            node=nodes[end.node],
            evidence=_process(
                end.torchrun.pid, end.torchrun.process_state, end.torchrun.stack, end.torchrun.connecting
            ),
            kind="torchrun",
            place=place_of(None),
            moved=None,
            ranks=tuple(state.rank for state in end.ranks),
        )
        for end in run.ends
        if end.torchrun is not None
    ]
    return HangJob(
        id="gpudoctor",
        evidence=Evidence(
            nodes=tuple(nodes.values()), lost={end.node: end.error for end in run.ends if end.how == "lost"}
        ),
        world_size=run.members[0].world_size if run.members else 0,
        ranks=tuple(sorted(ranks, key=lambda rank: rank.rank)),
        launchers=tuple(launchers),
        nodes=tuple(nodes.values()),
    )


def _node(end: NodeRanks) -> NodeEvidence:
    processes = (_process(state.pid, state.process_state, state.stack, state.connecting) for state in end.ranks)
    return NodeEvidence(name=end.node, hostname=end.node, processes=tuple(processes))


def _process(pid: int, state: str, stack: tuple[str, ...], connecting: tuple[str, ...]) -> ProcessEvidence:
    frames = (match for match in map(_FRAME.fullmatch, stack) if match)
    main = Thread(
        id=pid,
        name="MainThread",
        state=state,
        frames=tuple(Frame(match["function"], match["file"], int(match["line"])) for match in frames),
    )
    ends = (far.rpartition(":") for far in connecting)
    return ProcessEvidence(
        process=Process(pid=pid, parent=0, started=0, state=state),
        samples=(Sample(at=0.0, state=state, threads=(main,), stacks_by="faulthandler"),) if state else (),
        sockets=tuple(
            Socket(state="SYN_SENT", local="", local_port=0, remote=address.strip("[]"), remote_port=int(port))
            for address, _, port in ends
            if port.isdecimal()
        ),
    )


def _rank(number: int, local: int, node: NodeEvidence, process: ProcessEvidence) -> Rank:
    pid = process.process.pid
    place = place_of(main_thread(process.samples[-1], pid) if process.samples else None)
    return Rank(
        rank=number,
        local_rank=local,
        world_size=None,
        node=node,
        evidence=process,
        place=place,
        first_place=place,
        moved=None,
    )
