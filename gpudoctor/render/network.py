"""What NCCL's traffic between nodes goes over, in a line of the report's header."""

from collections import Counter

from gpudoctor.knowledge.nccl.interfaces import nccl_choice
from gpudoctor.knowledge.nccl.settings import effective, set_text
from gpudoctor.knowledge.network.rdma_selection import rdma_choice
from gpudoctor.knowledge.wording import listed
from gpudoctor.snapshot import NOT_IN_SNAPSHOT, NotApplicable, NotRead, Snapshot

LAYERS = {"Ethernet": "RoCE"}
SHOWN = 3
"""Names before "and 5 more"."""


def network_line(snapshot: Snapshot) -> str:
    """ "NCCL between nodes: 8x InfiniBand 400 Gb/s (mlx5_0, mlx5_1, mlx5_2 and 5 more)", "...: TCP on eth0", or why it
    is not known. Empty where there is no GPU for NCCL, and where the snapshot holds nothing of the network.
    """
    gpus = snapshot.nvidia.gpus
    if snapshot.network.interfaces == NOT_IN_SNAPSHOT or not gpus.value_or(()):
        return ""
    try:
        return f"NCCL between nodes: {_carrier(snapshot)}"
    except NotApplicable:
        return ""
    except NotRead as unknown:
        return f"NCCL between nodes: unknown ({unknown.reading.source}: {unknown.reading.reason})"


def _carrier(snapshot: Snapshot) -> str:
    settings = effective(snapshot)
    forced = set_text(settings, "NCCL_NET")
    if forced and forced.lower() not in ("ib", "socket"):
        return f"the plugin that calls itself {forced} (NCCL_NET)"
    plugins = snapshot.network.net_plugins.value
    if plugins and not forced and set_text(settings, "NCCL_NET_PLUGIN") != "none":
        return (
            f"the plugin {plugins[0].rpartition('/')[2]}, where it finds a device; else {_built_in(snapshot, forced)}"
        )
    return _built_in(snapshot, forced)


def _built_in(snapshot: Snapshot, forced: str) -> str:
    """What NCCL's own transports use."""
    taken = rdma_choice(snapshot).taken if forced.lower() != "socket" else ()
    if taken:
        return _rdma(snapshot, taken)
    if forced:
        return _tcp(snapshot) if forced.lower() == "socket" else f"nothing: NCCL_NET is {forced}, and no port is usable"
    return _tcp(snapshot)


def _rdma(snapshot: Snapshot, taken: tuple[tuple[str, int], ...]) -> str:
    ports = {
        (device.name, port.number): port for device in snapshot.network.rdma_devices.value for port in device.ports
    }
    kinds = Counter(
        (LAYERS.get(layer, layer), ports[place].rate_gbps.value_or(None))
        for place in taken
        for layer in (ports[place].link_layer.value,)
    )
    parts = [
        f"{number}x {layer}" + (f" {rate:g} Gb/s" if rate is not None else "")
        for (layer, rate), number in kinds.items()
    ]
    return f"{' and '.join(parts)} ({listed(dict.fromkeys(name for name, _ in taken), SHOWN)})"


def _tcp(snapshot: Snapshot) -> str:
    choice = nccl_choice(snapshot)
    if choice.is_blocked:
        return f"nothing: {choice.rule}"
    return (
        f"TCP on {listed(choice.names, SHOWN)}"
        if choice.names
        else "nothing: no interface has an address that NCCL takes"
    )
