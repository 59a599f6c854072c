"""Clocks of nodes that are apart, with which torchrun's c10d rendezvous loses nodes.

Each agent compares the wall-clock heartbeats of the others with its own clock, and takes one that is more than three
times five seconds old for dead: dynamic_rendezvous.py, `_sanitize` (keep_alive_interval 5 s, keep_alive_max_attempt 3).
Tried with torch 2.13: 14 s are fine, with 17 s the node that is ahead trains alone.
"""

from collections.abc import Iterator

from gpudoctor.check import Fix
from gpudoctor.command import command
from gpudoctor.hang.causes import Rule
from gpudoctor.hang.job import Job
from gpudoctor.hang.report import HangCause, Seen
from gpudoctor.hang.starts import Told, name, told
from gpudoctor.knowledge.wording import counted, listed
from gpudoctor.snapshot.evidence import NodeEvidence

MOST = 15.0
"""Seconds: torchrun's heartbeat interval times its attempts, both defaults."""


def clocks_apart(job: Job) -> Iterator[HangCause]:
    """c10d, clocks further apart than its heartbeats allow, and a world that is smaller or waits."""
    starts = [each for each in told(job) if each.launcher is not None and each.backend == "c10d"]
    nodes: dict[str, NodeEvidence] = {each.where: each.node for each in starts}
    offsets = {host: node.clock_offset_seconds for host, node in nodes.items() if node.clock_offset_seconds is not None}
    if len(offsets) < 2 or max(offsets.values()) - min(offsets.values()) <= MOST:
        return
    waiting = [each for each in starts if each.is_waiting]
    shrunk = [each for each in starts if _is_shrunk(each)]
    if not waiting and not shrunk:
        return
    apart = max(offsets.values()) - min(offsets.values())
    usual = sorted(offsets.values())[len(offsets) // 2]
    strays = [host for host, offset in offsets.items() if abs(offset - usual) > MOST / 2]
    behind = min(offsets, key=lambda host: offsets[host])
    ahead = max(offsets, key=lambda host: offsets[host])
    evidence = [Seen(f"node {host} clock", f"{offset:+.1f} s against the head's") for host, offset in offsets.items()]
    for each in shrunk:
        size = each.ranks[0].world_size
        wanted = f"{counted(each.fewest_nodes or 0, 'node')} of {each.ranks_here or '?'} ranks"
        evidence.append(Seen(each.what, f"its ranks have WORLD_SIZE={size}; it was told {wanted}"))
    evidence += [Seen(each.what, "waits in the rendezvous, without ranks") for each in waiting]
    result = (
        f"{listed(dict.fromkeys(each.where for each in shrunk))} trains with a smaller world than was asked for"
        if shrunk
        else f"{listed(dict.fromkeys(each.where for each in waiting))} waits in the rendezvous"
    )
    yield HangCause(
        cause="clock-skew",
        confidence=0.96,
        ranks=tuple(sorted({rank.rank for each in shrunk for rank in each.ranks})),
        evidence=tuple(evidence[:12]),
        summary=f"The clocks of {behind} and {ahead} are {apart:.0f} s apart (torchrun's c10d rendezvous stands "
        f"{MOST:.0f} s), and {result}",
        meaning="torchrun on one node takes the others for dead, because their heartbeats carry times of another "
        "clock, and goes on without them and without a word; the others wait for ranks that nobody gives them. What "
        "trains now sees only its own part of the data and of the batch.",
        fix=Fix(
            f"Set the clock of {listed(strays or [behind, ahead])} by NTP on every node, end all launchers and "
            "start again. These lines, on each node, set it at once and show what it is set by.",
            (
                command("sudo systemctl enable --now chronyd || sudo timedatectl set-ntp true"),
                command("sudo chronyc makestep"),
                command("timedatectl"),
            ),
        ),
    )  # fmt: skip


def _is_shrunk(each: Told) -> bool:
    """Its ranks have a smaller world than its own ranks and one of every other node would make."""
    sizes = [rank.world_size for rank in each.ranks if rank.world_size is not None]
    if not sizes or not each.fewest_nodes:
        return False
    return max(sizes) < (each.ranks_here or len(each.ranks)) + each.fewest_nodes - 1


def smaller_world(job: Job) -> Iterator[HangCause]:
    """A c10d launcher whose ranks train in a smaller world than asked, without clocks to compare."""
    starts = [each for each in told(job) if each.launcher is not None and each.backend == "c10d"]
    shrunk = [each for each in starts if _is_shrunk(each)]
    if not shrunk:
        return
    offsets = [each.node.clock_offset_seconds for each in starts]
    known = [offset for offset in offsets if offset is not None]
    if len({each.where for each in starts}) > 1 and len(known) == len(offsets):
        return  # clocks_apart has judged them
    each = shrunk[0]
    size = max(rank.world_size or 0 for rank in each.ranks)
    yield HangCause(
        cause="clock-skew",
        confidence=0.6,
        ranks=tuple(rank.rank for rank in each.ranks),
        evidence=(Seen(each.what, f"--nnodes {each.fewest_nodes}, and WORLD_SIZE={size} for its ranks"),),
        summary=f"{name(each.node)} trains with a world of {counted(size, 'rank')}; it was told to wait for "
        f"{counted(each.fewest_nodes or 0, 'node')}",
        meaning="torchrun's c10d rendezvous goes on without nodes whose heartbeats look old, which they do when the "
        "clocks are more than 15 s apart.",
        fix=Fix(
            "Compare the clocks of the nodes, set them by NTP, and start again.",
            (command("date +%s.%N"), command("timedatectl")),
        ),
        confirm="Compare `date +%s` of all nodes at one moment, or run `gpudoctor hang --hosts` with all of them, "
        "which compares the clocks.",
    )  # fmt: skip


RULES: tuple[Rule, ...] = (clocks_apart, smaller_world)
