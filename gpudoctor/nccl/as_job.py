"""A launch as `hang` sees any job: what the agents have read of it, so that hang's rules conclude about it too."""

from collections.abc import Iterator

from msgspec import structs

from gpudoctor.hang.assemble import job_of
from gpudoctor.hang.conclude import conclude_job
from gpudoctor.hang.job import JobMember, Members
from gpudoctor.hang.report import HangCause
from gpudoctor.nccl.result import NodeRanks, RunResult
from gpudoctor.snapshot.evidence import Evidence, NodeEvidence, ProcessEvidence
from gpudoctor.sure import SHOWN


def shown(run: RunResult) -> tuple[HangCause, ...]:
    """What hang's rules say of the processes, as far as it is shown."""
    looked_at = [end for end in run.ends if end.evidence is not None]
    nodes = tuple(map(_node, looked_at))
    members = tuple(member for at, end in enumerate(looked_at) for member in _members(at, end, nodes[at]))
    lost = {end.node: end.error for end in run.ends if end.how == "lost"}
    job = job_of(Members(id="gpudoctor", members=members), Evidence(nodes=nodes, lost=lost))
    return tuple(cause for cause in conclude_job(job).causes if cause.confidence >= SHOWN)


def _node(end: NodeRanks) -> NodeEvidence:
    """With torchrun's command line as its users write it: ours runs it under the doctor's eye."""
    assert end.evidence is not None
    ranks = {state.pid for state in end.ranks}
    return structs.replace(
        end.evidence,
        name=end.node,
        processes=tuple(process if process.pid in ranks else _launcher(process) for process in end.evidence.processes),
    )


def _launcher(process: ProcessEvidence) -> ProcessEvidence:
    words = process.process.command
    return structs.replace(process, process=structs.replace(process.process, command=(*words[:1], *words[2:])))


def _members(at: int, end: NodeRanks, node: NodeEvidence) -> Iterator[JobMember]:
    """The launcher, and the ranks but those that ended with a status: that is their own story, which they tell.

    Which ranks there are is known: none that has ended is missing, so no world size is told.
    """
    states = {state.pid: state for state in end.ranks}
    for process in node.processes:
        state = states.get(process.pid)
        if state is None:
            yield JobMember(node=at, process=process.process, role="launcher")
        elif state.ended in ("", "signal"):
            yield JobMember(node=at, process=process.process, role="rank", rank=state.rank, local_rank=state.local_rank)
