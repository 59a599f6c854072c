"""Clocks that are apart."""

import statistics
from collections.abc import Iterator, Mapping

from gpudoctor.command import command
from gpudoctor.fleet.clocks import ClockOffset
from gpudoctor.fleet.names import folded
from gpudoctor.nccl.finding import Finding, finding
from gpudoctor.nccl.preflight_nodes import Nodes
from gpudoctor.snapshot import read

WARNING_SECONDS = 5.0
ERROR_SECONDS = 15.0
"""torchrun's c10d rendezvous takes a node for dead whose heartbeat, on the clock of another, is 15 s old: measured, it
then drops the node without a word; 14 s went well (measured in our lab)."""


def clock_findings(nodes: Nodes, clocks: Mapping[str, ClockOffset]) -> Iterator[Finding]:
    """`clocks` by node name. The reference is the clock in the middle, so that one wrong node is the one named."""
    if len(clocks) < 2:
        return
    middle = statistics.median_low(clock.seconds for clock in clocks.values())
    apart = max(clock.seconds - clock.uncertainty for clock in clocks.values()) - min(
        clock.seconds + clock.uncertainty for clock in clocks.values()
    )
    if apart < WARNING_SECONDS:
        return
    off = {
        name: clock.seconds - middle
        for name, clock in clocks.items()
        if abs(clock.seconds - middle) - clock.uncertainty >= WARNING_SECONDS / 2
    }
    names = tuple(off)
    words = [f"that of {name} is {abs(by):.1f} s {'ahead' if by > 0 else 'behind'}" for name, by in off.items()]
    more = f" and {len(words) - 4} more are off" if len(words) > 4 else ""
    largest = max((clocks[name].uncertainty for name in names), default=0.0)
    yield finding(
        "clock-skew",
        "error" if apart > ERROR_SECONDS else "warning",
        f"The clocks of the nodes are up to {apart:.1f} s apart: {', '.join(words[:4])}{more} "
        f"(measured to {largest:.2f} s)",
        meaning="torchrun's c10d rendezvous loses nodes without a word once clocks are 15 s apart: some ranks train "
        "alone, the others hang. Logs of several nodes cannot be put in order.",
        fix=f"Start a time service on {folded(names)}, and step the clock once.",
        commands=tuple(
            nodes.on(name, line)
            for name in names[:3]
            for line in (
                command("sudo timedatectl set-ntp true"),
                command("sudo chronyc makestep || timedatectl status"),
            )
        ),
        evidence=tuple(
            read(f"{name}: clock against this machine's", round(clocks[name].seconds, 3)) for name in names[:4]
        ),
        nodes=names,
    )
