"""Why a launch stopped before its end: which rank was where, and who is to blame.

The rank that complains is usually the victim (torchrun names whichever failed first). So the blame goes, in this
order: to what hinders a node from starting; to a rank that was stopped or killed or crashed, and to a lost node; to an
error of a rank's own, which names no other; to a rank whose phase is behind all others; to the network between named
nodes; and where none of these is seen, it is said what is known, and that the cause is not visible.
"""

from collections.abc import Callable, Iterator, Mapping

from gpudoctor.nccl.finding import Finding
from gpudoctor.nccl.result import RunResult
from gpudoctor.nccl.stopped_network import between_nodes, rendezvous
from gpudoctor.nccl.stopped_ranks import by_the_rules_of_hang, ended_launchers, lost_nodes, own_errors
from gpudoctor.nccl.stopped_start import not_started, start_errors
from gpudoctor.nccl.stopped_where import behind, elsewhere, unexplained
from gpudoctor.snapshot import Snapshot

Explanation = Callable[[RunResult, Mapping[str, Snapshot]], Iterator[Finding]]

IN_ORDER: tuple[Explanation, ...] = (
    not_started,
    start_errors,
    by_the_rules_of_hang,
    ended_launchers,
    lost_nodes,
    own_errors,
    between_nodes,
    behind,
    rendezvous,
    elsewhere,
    unexplained,
)
"""The most decisive first; the first that finds anything has the word. An unanswered connection comes before a phase
that is behind, for it is why the phase is."""


def why_stopped(run: RunResult, snapshots: Mapping[str, Snapshot]) -> tuple[Finding, ...]:
    """What ended or stalled a launch; () for one that is complete or was interrupted. `snapshots` by node name."""
    if run.outcome not in ("stalled", "died"):
        return ()
    for explain in IN_ORDER:
        if findings := tuple(explain(run, snapshots)):
            return findings
    return ()
