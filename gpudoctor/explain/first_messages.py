"""Two ranks of which one begins to talk to the other, which is elsewhere.

ProcessGroupNCCL makes a communicator for each two ranks at their first message by themselves. The higher rank takes
its id from the store, under the key "LOWER:HIGHER"; where it is not there when the time is up, the lower one has not
come to a message between the two.
"""

from collections.abc import Sequence

from gpudoctor.explain.candidate import Candidate
from gpudoctor.explain.deaths import Spoken
from gpudoctor.explain.waits import PARTS_OF_ONE, Wait, said, shown_by
from gpudoctor.lazy import lazy_re
from gpudoctor.sure import HINT, LIKELY

NOT_RECEIVED = ("unique-id-not-received", "store-wait-timeout")
PAIR = lazy_re(r"(?:^|//cuda//)(?P<lower>\d{1,6}):(?P<higher>\d{1,6})$")
"""As ProcessGroupNCCL calls it, and with the prefixes of its store."""


def first_messages(waits: Sequence[Wait], tracebacks: Sequence[Spoken]) -> list[Candidate]:
    """A rank that had completed others before, and waits for one that has never exchanged anything with it, and waits
    in a message of its own: had that one come to theirs, its id would be there."""
    by_rank = {wait.rank: wait for wait in waits}
    for event in (event for traceback in tracebacks for event in traceback.events):
        pair = PAIR.search(event.values.get("key", "")) if event.symptom.id in NOT_RECEIVED else None
        if pair is None:
            continue
        lower, higher = int(pair["lower"]), int(pair["higher"])
        begins, other = by_rank.get(higher), by_rank.get(lower)
        if not begins or not other or other.operation not in PARTS_OF_ONE or other.sequence is None:
            continue
        if (other.completed or 0) <= 0:  # at the start all messages are first ones
            continue
        summary = (
            f"rank {higher} came to its first message with rank {lower} ({said(begins)}), which waited in "
            f"{said(other)}: between these two nothing had been sent before"
        )
        ranks, shown = [begins], [begins, other]
        return [
            shown_by("p2p-order", LIKELY, begins, summary, ranks, shown),
            shown_by("rank-divergent-decision", HINT, begins, summary, ranks, shown),
        ]
    return []
