"""How far the clocks of the nodes are ahead of the head's."""

import time

from msgspec import Struct

from gpudoctor.fleet.fleet import Fleet, Lost
from gpudoctor.fleet.messages import Ping, Pong

PINGS = 3
"""The shortest round trip of so many tells most about a clock."""
PING_SECONDS = 2.0
"""For all of them together: so long a node that is silent costs."""


class ClockOffset(Struct, frozen=True):
    """How far a node's clock is ahead of the head's, in seconds, and how sure that is (half the round trip)."""

    seconds: float
    uncertainty: float


def clock_offsets(fleet: Fleet) -> dict[int, ClockOffset]:
    """Each node's clock against this machine's, from the fastest of some pings: half the round trip is not known.

    The rule is NTP's (RFC 5905, section 8) with one time stamp of the node, taken for the middle of the round trip.
    """
    best: dict[int, ClockOffset] = {}
    deadline = time.monotonic() + PING_SECONDS
    for _ in range(PINGS):
        sent_at, sent = time.time(), time.monotonic()
        number = fleet.send(Ping())
        waiting = set(fleet.present)
        while waiting and (left := deadline - time.monotonic()) > 0:
            event = fleet.next_event(left)
            if event is None:
                break
            if isinstance(event.what, Lost):
                waiting.discard(event.node)
            elif isinstance(event.what, Pong) and event.what.number == number and event.node in waiting:
                waiting.remove(event.node)
                trip = time.monotonic() - sent
                offset = ClockOffset(event.what.time - (sent_at + trip / 2), trip / 2)
                if event.node not in best or trip / 2 < best[event.node].uncertainty:
                    best[event.node] = offset
    return best
