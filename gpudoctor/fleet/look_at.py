"""Answers `FindRanks`, `LookAt` and `Watch`: what the readers of a live job (read/job/) find on this node."""

from collections.abc import Callable

import msgspec

from gpudoctor.fleet.messages import FindRanks, LookAt, LookedAt, RanksFound, Watch, Watched
from gpudoctor.read.job import node, pace, thinned


def find(order: FindRanks) -> RanksFound:
    return RanksFound(found=msgspec.Raw(msgspec.json.encode(node.find(order.alone))))


def begin(order: LookAt, number: int) -> Callable[[], LookedAt]:
    """Begin to read, as fleet node `number`; to be called in the agent's main thread."""
    finish = node.begin(order.wanted, number)
    return lambda: LookedAt(evidence=msgspec.Raw(thinned.encoded(finish())))


def watch(order: Watch, number: int) -> Callable[[], Watched]:
    """As `begin`."""
    finish = pace.begin(order.wanted, number)
    return lambda: Watched(pace=msgspec.Raw(msgspec.json.encode(finish())))
