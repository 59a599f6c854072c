"""What ranks say when another one's time is up and all write their flight recorders: how far NCCL has come on each.

torch's heartbeat thread says it for the group of all ranks, at that moment: one that has launched no more than it has
completed waits in no collective, whatever it meets later; one that has launched more waits, though its own time may not
be up yet, and nothing else be said of it.
"""

from collections.abc import Sequence

from gpudoctor.explain.absent import idle_ranks
from gpudoctor.explain.order import Facts
from gpudoctor.explain.waits import DEFAULT_GROUP, Wait

SINGLE = ("send", "recv")


def as_dumped(waits: list[Wait], facts: Facts) -> list[Wait]:
    """The waits, without those of ranks that waited in nothing when others' time was up."""
    if not any(wait.sequence is not None for wait in waits) or not _of_all_ranks(waits):
        return waits
    idle = idle_ranks(facts) | {wait.rank for wait in waits if _has_done(wait, waits)}
    if not {wait.rank for wait in waits} - idle:
        return waits
    return [wait for wait in waits if wait.rank not in idle]


def _has_done(wait: Wait, waits: Sequence[Wait]) -> bool:
    """All that it had launched, while others wait in a later one: it has not come to theirs."""
    done = wait.completed if wait.completed == wait.enqueued else None
    return done is not None and any((other.sequence or 0) > done for other in waits)


def _of_all_ranks(waits: Sequence[Wait]) -> bool:
    """The numbers are those of the group of all ranks; sends and receives are counted apart."""
    return all(wait.group in ("", DEFAULT_GROUP) and wait.operation not in SINGLE for wait in waits)
