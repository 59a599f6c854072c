"""Evidence of stuck jobs as docs and tests show it: hand-made, concluded by the program itself."""

from collections.abc import Callable

from msgspec.structs import replace

from gpudoctor.snapshot.evidence import Evidence
from tests.hang_jobs import a_job, source, waits

HOSTS = ("gpu-01", "gpu-02")
RANKS = 8


def rank0_only() -> Evidence:
    """Eight ranks on two nodes: rank 0 saves a checkpoint and meets a barrier that the others never call."""
    guarded = source(
        118,
        inside=(("if", 115, "rank == 0"), ("for", 97, "epoch in range(epochs)")),
        calls=(("all_reduce", 104, ""), ("barrier", 118, "rank == 0")),
        function="train",
        text="dist.barrier()",
    )
    plain = source(
        104,
        inside=(("for", 99, "batch in loader"), ("for", 97, "epoch in range(epochs)")),
        calls=(("all_reduce", 104, ""), ("barrier", 118, "rank == 0")),
        function="train",
        text="dist.all_reduce(loss)",
    )
    members = [waits(0, "barrier", at=118, function="train", host=HOSTS[0], sources=(guarded,))]
    members += [
        waits(rank, at=104, function="train", host=HOSTS[rank * len(HOSTS) // RANKS], sources=(plain,))
        for rank in range(1, RANKS)
    ]
    return _finished(a_job(*members).evidence)


def one_node_seen() -> Evidence:
    """Four ranks, and only the node of two of them was looked at."""
    return _finished(
        a_job(*[waits(rank, "broadcast", at=61, host=HOSTS[0]) for rank in (0, 1)], missing=(2, 3)).evidence
    )


def _finished(evidence: Evidence) -> Evidence:
    return replace(evidence, gpudoctor="0.1.0", time=1790000000.0)


EXAMPLES: dict[str, Callable[[], Evidence]] = {"hang-rank0-only": rank0_only, "hang-undecided": one_node_seen}
