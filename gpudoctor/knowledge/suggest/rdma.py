"""What `gpudoctor env` suggests for RDMA: which HCAs, which GID, how far GPUDirect reaches, whether to cross rails.

Sources: NCCL's user guide (env.rst, 2.30) for each variable's meaning and versions; knowledge/network/rdma_selection,
gpu_direct and topology for what NCCL does by itself. InfiniBand rails cannot be told from one machine, so nothing is
said of them.
"""

import contextlib
import ipaddress
from collections.abc import Iterator, Sequence

from gpudoctor.knowledge.gpus.gpu_labels import sysfs_address
from gpudoctor.knowledge.gpus.nvidia_hardware import gpus_on_pci
from gpudoctor.knowledge.nccl.rails import rails as given
from gpudoctor.knowledge.nccl.settings import dotted, effective, nccl_version, set_integer, set_text
from gpudoctor.knowledge.network.gids import is_ipv4
from gpudoctor.knowledge.network.gpu_direct import GdrVerdict, verdicts
from gpudoctor.knowledge.network.rdma_selection import rdma_choice
from gpudoctor.knowledge.network.topology import nearest
from gpudoctor.knowledge.presence import if_present
from gpudoctor.knowledge.suggest.advice import Suggestion
from gpudoctor.knowledge.suggest.situation import can_connect, is_routable_v2, rdma_ports, taken_ports, without
from gpudoctor.knowledge.wording import counted, listed
from gpudoctor.snapshot import NotRead, RdmaDevice, RdmaPort, Snapshot, missing, require

Pair = tuple[RdmaDevice, RdmaPort]

CHOOSES_GID_SINCE = (2, 21)
"""NCCL 2.21.5 looks for a fitting GID itself, and its documentation asks to leave the variable unset from then on."""
ROUTED_PREFIX = 30
"""From /30 on no other node fits beside this one and a switch."""
USES_IB = 'NCCL_DEBUG=INFO logs "NET/IB : Using" with these devices and no others'


def hca(machine: Snapshot, several: bool) -> Iterator[Suggestion]:
    """NCCL_IB_HCA, where storage, management or unequal ports are ACTIVE beside those of the GPUs. Raises `NotRead`."""
    if not several:
        return
    choice = rdma_choice(machine)
    if choice.hca_filter and choice.filter_matched:
        return  # somebody chose, and the choice is there
    own = taken_ports(without(machine, "NCCL_IB_HCA"))
    wanted = rails(machine, own)
    if not wanted or (len(wanted) == len(own) and not choice.hca_filter):
        return
    others = [pair for pair in own if pair not in wanted]
    if choice.hca_filter:
        seen = f"NCCL_IB_HCA={choice.hca_filter} fits no port here, so that NCCL goes over TCP without a word."
    else:
        one = len(others) == 1
        seen = (
            f"NCCL would also take {listed(map(_described, others))}, which {'is' if one else 'are'} of another kind "
            f"or no GPU's nearest: meant for storage or management, as it seems."
        )
    yield Suggestion(
        "NCCL_IB_HCA",
        hca_value(wanted, own),
        f"{seen} The GPUs' own ports are {_summed(wanted)}; another port that cannot reach its like on the other "
        "nodes makes connections time out.",
        "NCCL 2.5 and later ('=' for exact names; without it, mlx5_1 also means mlx5_10)",
        USES_IB + "; the other nodes need the same rails",
    )


def rails(machine: Snapshot, ports: Sequence[Pair]) -> tuple[Pair, ...]:
    """Of the ports that NCCL takes, those meant for the GPUs' traffic. Raises `NotRead`.

    A port is left out when it cannot connect; when NCCL gives it to no GPU, and either it differs from those that it
    gives or each GPU has one of its own without it; when it speaks another link layer than most of the bandwidth; or
    when it is slower and of another kind of board (a slower one of the same kind is a rail with a fault, which other
    nodes still expect).
    """
    kept = [pair for pair in ports if can_connect(pair[1]) is not False]
    addresses = _gpu_addresses(machine)
    near = _devices_of_gpus(machine, addresses, ports)
    beside = [pair for pair in kept if pair[0].name in near]
    complete = len({pair[0].name for pair in beside}) >= len(addresses) > 1
    if beside:
        kept = [
            pair for pair in kept if pair in beside or not (complete or all(_differ(pair, other) for other in beside))
        ]
    layers: dict[str, float] = {}
    for _, port in kept:
        layers[port.link_layer.value] = layers.get(port.link_layer.value, 0.0) + port.rate_gbps.value
    if len(layers) > 1:
        widest = max(layers, key=lambda layer: layers[layer])
        kept = [pair for pair in kept if pair[1].link_layer.value == widest]
    fastest = max((port.rate_gbps.value for _, port in kept), default=0.0)
    boards = {_board(device) for device, port in kept if port.rate_gbps.value == fastest}
    return tuple(pair for pair in kept if pair[1].rate_gbps.value == fastest or _board(pair[0]) in boards)


def _gpu_addresses(machine: Snapshot) -> set[str]:
    """Where the GPUs of the whole machine sit: a container or a job's cgroup shows NVML a few, and all HCAs.

    Raises `NotRead`.
    """
    shown = {sysfs_address(gpu) for gpu in if_present(machine.nvidia.gpus) or ()}
    on_pci = gpus_on_pci(machine) if machine.accelerators.pci.is_read else ()
    known = machine.network.pci_paths.value_or({})
    return shown | {device.bus_id for device in on_pci if device.bus_id in known}


def _devices_of_gpus(machine: Snapshot, addresses: set[str], ports: Sequence[Pair]) -> set[str]:
    """Names of the devices that some GPU is closest to, or which NCCL gives it because they are faster and of another
    kind: a slower one of the same kind is its rail, with a fault. Empty when that is not known of every GPU."""
    taken = {(device.name, port.number) for device, port in ports}
    names: set[str] = set()
    for address in addresses:
        devices, fast = nearest(machine, address)[0], given(machine, address, taken)
        if not devices:
            return set()
        if fast and not {_board(device) for device in fast} & {_board(device) for device in devices}:
            devices = fast
        names |= {device.name for device in devices}
    return names


def _board(device: RdmaDevice) -> str:
    return device.board_id.value_or("")


def _differ(one: Pair, other: Pair) -> bool:
    """Whether two ports are of different kinds."""
    return (
        _board(one[0]) != _board(other[0])
        or one[1].link_layer.value != other[1].link_layer.value
        or one[1].rate_gbps.value != other[1].rate_gbps.value
    )


def hca_value(wanted: Sequence[Pair], own: Sequence[Pair]) -> str:
    """NCCL_IB_HCA's exact form; a port's number only where another port of its device is to be left out."""
    words: list[str] = []
    for device, port in wanted:
        whole = all(pair in wanted for pair in own if pair[0].name == device.name)
        word = device.name if whole else f"{device.name}:{port.number}"
        if word not in words:
            words.append(word)
    return "=" + ",".join(words)


def _described(pair: Pair) -> str:
    device, port = pair
    where = f"{device.name} port {port.number}" if len(device.ports) > 1 else device.name
    layer = "RoCE" if port.link_layer.value_or("") == "Ethernet" else port.link_layer.value_or("")
    reason = ", without any GID" if can_connect(port) is False else ""
    return f"{where} ({layer} {port.rate_gbps.value_or(0):g} Gb/s{reason})"


def _summed(wanted: Sequence[Pair]) -> str:
    names = [device.name for device, _ in wanted]
    return f"{listed(dict.fromkeys(names), 8)} ({wanted[0][1].rate_gbps.value:g} Gb/s each)"


def no_rdma(machine: Snapshot, several: bool) -> Iterator[Suggestion]:
    """NCCL_IB_DISABLE=1, where NCCL takes ports that can connect to nobody. Raises `NotRead`.

    Where NCCL finds no usable port it goes over TCP by itself, and nothing needs to be set.
    """
    taken = taken_ports(machine) if several else ()
    if not taken or any(can_connect(port) for _, port in taken):
        return
    require(*(port.gids for _, port in taken))  # a table that nobody could read may hold an address
    names = list(dict.fromkeys(device.name for device, _ in taken))
    yield Suggestion(
        "NCCL_IB_DISABLE",
        "1",
        f"{listed(names)} {'is' if len(names) == 1 else 'are'} ACTIVE with an empty GID table; NCCL takes "
        f"{'it' if len(names) == 1 else 'them'} and fails to connect. The cure is an IPv4 address on the interface of "
        "each port, in the network namespace of the job; until then this makes NCCL go over TCP, several times slower.",
        "every NCCL version (the number 1: 'true' counts as 0)",
        'NCCL_DEBUG=INFO logs "NET/Socket : Using"',
        "work-around",
    )


def gid_index(machine: Snapshot, several: bool) -> Iterator[Suggestion]:
    """NCCL_IB_GID_INDEX, for RoCE with an NCCL that does not look for the GID itself. Raises `NotRead`."""
    roce = [pair for pair in rails(machine, rdma_ports(machine)) if pair[1].link_layer.value == "Ethernet"]
    if not several or not roce or nccl_version(machine) >= CHOOSES_GID_SINCE:
        return
    indices = [
        {gid.index for gid in port.gids.value if is_routable_v2(gid) and is_ipv4(gid)}
        or {gid.index for gid in port.gids.value if is_routable_v2(gid)}
        for _, port in roce
    ]
    routable = set.intersection(*({gid.index for gid in port.gids.value if is_routable_v2(gid)} for _, port in roce))
    common = set.intersection(*indices)
    if not common:
        raise NotRead(
            missing(
                "GID tables",
                "the ports have their RoCE v2 GIDs at different indices, and NCCL before 2.21 takes one index for "
                "all; a newer NCCL finds each by itself",
            )
        )
    if set_integer(effective(machine), "NCCL_IB_GID_INDEX", 0) in routable:
        return  # somebody chose one of several, such as a VLAN's
    index = min(common)
    version = dotted(nccl_version(machine))
    yield Suggestion(
        "NCCL_IB_GID_INDEX",
        str(index),
        f"NCCL {version} takes GID 0 unless told otherwise, which is link-local or RoCE v1; on "
        f"{listed([device.name for device, _ in roce], 8)} the GID of RoCE v2 with an IP address has index {index}.",
        "NCCL 2.20 and older; take it out with 2.21 and later, which choose by themselves",
        f"NCCL_DEBUG=INFO logs GID {index} for each connection, and other nodes have theirs at the same index "
        "(show_gids)",
    )


def gdr_level(machine: Snapshot, several: bool) -> Iterator[Suggestion]:
    """NCCL_NET_GDR_LEVEL, in a virtual machine that shows no PCIe switch. Raises `NotRead`.

    Only where distance is the one condition that fails for every GPU, and no device shows a switch above it.
    """
    if not several or not rdma_ports(machine) or machine.host.virtualization.value == "none":
        return
    judged = verdicts(machine)
    if set_text(effective(machine), "NCCL_TOPO_FILE") or any(verdict.condition != "distance" for verdict in judged):
        return
    paths = machine.network.pci_paths.value
    if not judged or any(len(path.upstream) > 1 for path in paths.values()):
        return
    level = "SYS" if any(verdict.path == "SYS" for verdict in _nearest_verdicts(judged)) else "PHB"
    yield Suggestion(
        "NCCL_NET_GDR_LEVEL",
        level,
        f"This virtual machine shows every GPU and NIC without a PCIe switch above it, {level} apart, so that NCCL "
        "leaves GPUDirect RDMA unused although driver and GPUs offer it. The provider's topology file "
        "(NCCL_TOPO_FILE) is better where there is one.",
        "NCCL 2.4.2 and later",
        'NCCL_DEBUG=INFO logs "via NET/IB/0/GDRDMA", and all_reduce over two nodes is faster with it than without',
    )


def _nearest_verdicts(gdr_verdicts: tuple[GdrVerdict, ...]) -> list[GdrVerdict]:
    """Of each GPU, the verdict of the device closest to it."""
    gpus = dict.fromkeys(verdict.gpu for verdict in gdr_verdicts)
    return [
        min((verdict for verdict in gdr_verdicts if verdict.gpu == gpu), key=lambda verdict: verdict.path == "SYS")
        for gpu in gpus
    ]


def cross_nic(machine: Snapshot, several: bool) -> Iterator[Suggestion]:
    """NCCL_CROSS_NIC=0, where each RoCE rail is a network of its own without a way to the others. Raises `NotRead`.

    Two ports of one card are no rails: NCCL merges them into one device.
    """
    if not several or set_text(effective(machine), "NCCL_CROSS_NIC"):
        return
    ports = rails(machine, rdma_ports(machine))
    if len(ports) < 2 or any(port.link_layer.value != "Ethernet" for _, port in ports):
        return
    names = [_interface_of(pair) for pair in ports]
    networks = [_network(machine, name) for name in names]
    # A network of two addresses holds this node and its router: something routes between such rails.
    known = {network for network in networks if network is not None and network.prefixlen < ROUTED_PREFIX}
    cards = {device.pci_bus_id.value_or(device.name).rpartition(".")[0] for device, _ in ports}
    if len(known) < len(ports) or len(cards) < len(ports) or _has_gateway(machine, names):
        return
    yield Suggestion(
        "NCCL_CROSS_NIC",
        "0",
        f"The {counted(len(ports), 'rail')} are networks of their own ({listed(sorted(map(str, known)), 3)}), and the "
        "main routing table has no gateway between them. By default NCCL prefers the same rail on both sides and may "
        "cross all the same, which times out then. Leave it out where a routing policy joins the rails.",
        "NCCL 2.5 and later",
        f"ping -I {names[0]} to another rail's address on another node: no answer means that the rails are apart",
    )


def _has_gateway(machine: Snapshot, names: Sequence[str]) -> bool:
    """Whether a route of the main table leaves one of these interfaces for a gateway ("", 0.0.0.0 and :: are none)."""
    return any(route.interface in names and route.gateway.strip("0.:") for route in machine.network.routes.value)


def _interface_of(pair: Pair) -> str:
    device, port = pair
    named = [gid.interface for gid in port.gids.value if is_routable_v2(gid) and gid.interface]
    return (named or list(device.interfaces) or [""])[0]


def _network(machine: Snapshot, name: str) -> ipaddress.IPv4Network | None:
    for interface in machine.network.interfaces.value:
        for address in interface.addresses if interface.name == name else ():
            if address.family == "inet" and address.scope == "global":
                with contextlib.suppress(ValueError):  # an absurd prefix length names no network
                    return ipaddress.IPv4Interface(f"{address.address}/{address.prefix_length}").network
    return None
