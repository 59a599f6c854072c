"""What the nodes' own networks can carry, beside each other and beside what was measured: on NCCL and on gloo.

It needs no published run: a node whose network is slower than the others' holds them all up, and what stays fifty times
below the slowest interface's own rate is a fault, whatever is usual.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from gpudoctor.check import Fix
from gpudoctor.command import command
from gpudoctor.knowledge.bandwidth.links import network_used, rates_words, socket_names, used_ports
from gpudoctor.knowledge.network.gloo_interface import gloo_choice
from gpudoctor.knowledge.wording import MIB, listed, size
from gpudoctor.nccl.finding import Finding, finding
from gpudoctor.nccl.grade_places import GradedPlace
from gpudoctor.nccl.rank_messages import Row
from gpudoctor.snapshot import NotRead, Snapshot, read

HARDWARE = ("ethernet", "ipoib", "bond", "vlan", "virtual-function")
"""Kinds of interfaces whose speed is a wire's; a veth says 10 Gb/s and means nothing by it."""
UNLIKE = 1.5
"""Times faster from which on two networks are not of one kind: 100 beside 200 Gb/s, 10 beside 25."""
FAR_BELOW = 50
"""Times less than the slowest interface carries: our own bound, far below every protocol's overhead."""
TCP_AT_MOST = 40.0
"""Gb/s that one connection of TCP may be expected to reach at most, however fast the interface is."""
LEAST_SIZE = 8 * MIB
"""A smaller message shows latencies."""


class Rate(Struct, frozen=True):
    """What the network of a node carries, in one direction."""

    gbps: float
    words: str
    """ "4 x 400 Gb/s RDMA", "eth0, 10 Gb/s"."""
    over_tcp: bool


def rates_of(places: Sequence[GradedPlace], backend: str) -> dict[str, Rate]:
    """By node; without those of which nothing is known."""
    return {place.node: rate for place in places if (rate := rate_of(place, backend))}


def unlike_rates(places: Sequence[GradedPlace], rates: Mapping[str, Rate]) -> Iterator[Finding]:
    """One finding where some nodes' networks are slower than the others'."""
    nodes_of: dict[Rate, list[str]] = defaultdict(list)
    for name, rate in rates.items():
        nodes_of[rate].append(name)
    if len(nodes_of) < 2 or len({len(place.members) for place in places}) > 1:  # fewer GPUs use fewer ports
        return
    slow, fast = min(nodes_of, key=lambda node: node.gbps), max(nodes_of, key=lambda node: node.gbps)
    if fast.gbps < UNLIKE * slow.gbps:
        return
    where = listed(nodes_of[slow])
    yield finding(
        "link-speeds-differ",
        "warning",
        f"{where} sends by {slow.words} ({slow.gbps:g} Gb/s), {listed(nodes_of[fast])} by {fast.words} "
        f"({fast.gbps:g} Gb/s); alike nodes are wanted",
        meaning="Every ring and tree goes through all nodes: all of them send at the pace of the slowest network.",
        fix=Fix(
            f"Look at the ports, cables and settings of {where}; or train without.",
            commands=(command("gpudoctor check --hosts {:name} network", ",".join(nodes_of[slow])),),
        ),
        evidence=tuple(read(f"network of {node}", rate.words) for rate in (slow, fast) for node in nodes_of[rate][:2]),
        nodes=nodes_of[slow],
    )


def far_below(rows: Sequence[Row], places: Sequence[GradedPlace], rates: Mapping[str, Rate]) -> Iterator[Finding]:
    """One finding where what was reached is out of all proportion to the interfaces; `rows`: the largest sizes."""
    large = [row for row in rows if row.size_bytes >= LEAST_SIZE and row.bus_bandwidth > 0]
    if len(places) < 2 or len(rates) < len(places) or not large:
        return
    node, rate = min(rates.items(), key=lambda pair: pair[1].gbps)
    carries = min(rate.gbps, TCP_AT_MOST) if rate.over_tcp else rate.gbps
    best = max(large, key=lambda row: row.bus_bandwidth)
    reached = best.bus_bandwidth * 8
    if reached * FAR_BELOW > carries:
        return
    yield finding(
        "far-below-the-link",
        "error",
        f"{best.collective} of {size(best.size_bytes)} reaches {best.bus_bandwidth:.2g} GB/s ({reached:.2g} Gb/s) "
        f"between nodes whose slowest network, {rate.words} of {node}, carries {rate.gbps:g} Gb/s",
        meaning=f"It is {rate.gbps / reached:.0f} times less than the interface's own rate: data takes another way, "
        "packets get lost, or a wire is shared. A training over these nodes would mostly wait.",
        fix=Fix(
            "Look for lost packets and for the way that the data takes; then find the slow node.",
            commands=(
                command("ip -s link"),
                command("gpudoctor check --hosts {:name} network", ",".join(rates)),
                command("gpudoctor nccl-test --hosts {:name} --find-slow", ",".join(rates)),
            ),
        ),
        evidence=(read(f"{best.collective} of {best.size_bytes} bytes", best.bus_bandwidth),),
        nodes=tuple(rates),
    )


def rate_of(place: GradedPlace, backend: str) -> Rate | None:
    """What the node's network carries by the interfaces that the run took; None where that is not known."""
    if place.machine is None:
        return None
    try:
        if backend == "gloo":
            return _of_interfaces(place.machine, (gloo_choice(place.machine).interface,))
        network = network_used(place.machine, place.log)
        if network == "Socket":
            return _of_interfaces(place.machine, socket_names(place.machine, place.log))
        if network != "IB":
            return None
        rates = sorted((port.rate_gbps.value for _, port in used_ports(place.machine, place.addresses)), reverse=True)
    except NotRead:
        return None
    return Rate(sum(rates), f"{rates_words(rates)} RDMA", over_tcp=False) if rates else None


def _of_interfaces(machine: Snapshot, names: Sequence[str]) -> Rate | None:
    taken = [interface for interface in machine.network.interfaces.value if interface.name in names]
    speeds = [interface.speed_mbps / 1000 for interface in taken if interface.kind in HARDWARE and interface.speed_mbps]
    if not taken or len(speeds) < len(taken) or min(speeds) <= 0:
        return None
    return Rate(sum(speeds), f"{listed([interface.name for interface in taken])}, {rates_words(speeds)}", over_tcp=True)
