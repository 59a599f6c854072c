"""What an agent does for `gpudoctor hang`: finds the processes of distributed jobs, and reads them twice."""

from collections.abc import Callable

from gpudoctor.fleet.messages import LookAt, LookedAt, RanksFound


def find() -> RanksFound:
    """The processes of this node that belong to distributed jobs, or may. In a thread of its own; within a second."""
    raise NotImplementedError


def begin(order: LookAt, node: int) -> Callable[[], LookedAt]:
    """Begin to read the processes of an order; the result waits for them. To be called in the agent's main thread.

    Whatever cannot be read in `order.timeout` seconds is left out and said in `unread`.
    """
    raise NotImplementedError
