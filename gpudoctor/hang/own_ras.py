"""What NCCL's RAS said of a job: several jobs of one node have one each, or share the port that the first has taken."""

from collections import defaultdict
from collections.abc import Iterator

from gpudoctor.hang.job import HangJob
from gpudoctor.snapshot.ras import Ras


def polls(job: HangJob) -> Iterator[tuple[Ras, ...]]:
    """The answers of each RAS that is not another job's, in their order."""
    own = {rank.pid for rank in job.ranks}
    others = {process.pid for node in job.nodes for process in node.processes} - own
    for node in job.nodes:
        by_source: defaultdict[str, list[Ras]] = defaultdict(list)
        for answer in node.ras:
            by_source[answer.source].append(answer)
        yield from (tuple(answers) for answers in by_source.values() if not _is_foreign(answers[-1], own, others, job))


def _is_foreign(answer: Ras, own: set[int], others: set[int], job: HangJob) -> bool:
    """By the processes that it names; in a container these have numbers of their own, and the sizes of groups are left:
    every job has a group of all its ranks."""
    told = {rank.pid for group in answer.communicators for rank in group.ranks if rank.pid}
    if told & own:
        return False
    if told & others:
        return True
    sizes = {group.size for group in answer.communicators}
    return bool(sizes) and job.world_size > 0 and max(sizes) > job.world_size
