"""Clocks of nodes that are apart, with which torchrun's c10d rendezvous loses nodes.

Each agent compares the wall-clock heartbeats of the others with its own clock, and takes one that is more than three
times five seconds old for dead: dynamic_rendezvous.py, `_sanitize` (keep_alive_interval 5 s, keep_alive_max_attempt 3).
Tried with torch 2.13: 14 s are fine, with 17 s the node that is ahead trains alone.
"""

from collections.abc import Iterator

from gpudoctor.hang.causes import CAUSES, LIKELY, PROVED, HangCause, HangJob, HangRule, Seen, blame
from gpudoctor.hang.starts import Start, nodes_of, seen, starts_of
from gpudoctor.knowledge.wording import counted, listed
from gpudoctor.snapshot.evidence import NodeEvidence

MOST = 15.0
"""Seconds: torchrun's heartbeat interval times its attempts, both defaults."""


def clocks_apart(job: HangJob) -> Iterator[HangCause]:
    """c10d, clocks further apart than its heartbeats allow, and a world that is smaller or waits."""
    starts = [start for start in starts_of(job) if start.launcher is not None and start.backend == "c10d"]
    nodes: dict[str, NodeEvidence] = {start.where: start.node for start in starts}
    offsets = {host: node.clock_offset_seconds for host, node in nodes.items() if node.clock_offset_seconds is not None}
    if len(offsets) < 2 or max(offsets.values()) - min(offsets.values()) <= MOST:
        return
    waiting = [start for start in starts if start.is_waiting]
    shrunk = [start for start in starts if _is_shrunk(start)]
    if not waiting and not shrunk:
        return
    usual = sorted(offsets.values())[len(offsets) // 2]
    strays = [host for host, offset in offsets.items() if abs(offset - usual) > MOST / 2]
    behind, ahead = min(offsets, key=lambda host: offsets[host]), max(offsets, key=lambda host: offsets[host])
    evidence = [Seen(f"node {host} clock", f"{offset:+.1f} s against the head's") for host, offset in offsets.items()]
    for start in shrunk:
        wanted = f"{counted(start.fewest_nodes or 0, 'node')} of {start.ranks_here or '?'} ranks"
        size = start.ranks[0].world_size
        evidence.append(seen(start, f"its ranks have WORLD_SIZE={size}; it was told {wanted}"))
    evidence += [seen(start, "waits in the rendezvous, without ranks") for start in waiting]
    yield blame(
        "clock-skew",
        PROVED,  # both clocks, and what torchrun does then
        [rank for start in shrunk for rank in start.ranks],
        f"the clocks of {behind} and {ahead} are {offsets[ahead] - offsets[behind]:.0f} s apart (torchrun's c10d "
        f"rendezvous stands {MOST:.0f} s), and {listed(nodes_of(shrunk or waiting))} "
        + ("trains with a smaller world than was asked for" if shrunk else "waits in the rendezvous"),
        evidence[:12],
        fix=CAUSES["clock-skew"].remedy("known", hosts=listed(strays or [behind, ahead])),
    )


def _is_shrunk(start: Start) -> bool:
    """Its ranks have a smaller world than its own ranks and one of every other node would make."""
    sizes = [rank.world_size for rank in start.ranks if rank.world_size is not None]
    if not sizes or not start.fewest_nodes:
        return False
    return max(sizes) < (start.ranks_here or len(start.ranks)) + start.fewest_nodes - 1


def smaller_world(job: HangJob) -> Iterator[HangCause]:
    """A c10d launcher whose ranks train in a smaller world than asked, without clocks to compare."""
    starts = [start for start in starts_of(job) if start.launcher is not None and start.backend == "c10d"]
    shrunk = [start for start in starts if _is_shrunk(start)]
    if not shrunk:
        return
    offsets = [start.node.clock_offset_seconds for start in starts]
    known = [offset for offset in offsets if offset is not None]
    if len({start.where for start in starts}) > 1 and len(known) == len(offsets):
        return  # clocks_apart has judged them
    start = shrunk[0]
    size = max(rank.world_size or 0 for rank in start.ranks)
    yield blame(
        "clock-skew",
        LIKELY,  # nothing else is known to make torchrun do so
        start.ranks,
        f"{start.where} trains with a world of {counted(size, 'rank')}; it was told to wait for "
        f"{counted(start.fewest_nodes or 0, 'node')}",
        [seen(start, f"--nnodes {start.fewest_nodes}, and WORLD_SIZE={size} for its ranks")],
        confirm="Compare `date +%s` of all nodes at one moment, or run `gpudoctor hang --hosts` with all of them, "
        "which compares the clocks.",
    )


RULES: tuple[HangRule, ...] = (clocks_apart, smaller_world)
