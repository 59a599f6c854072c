"""Which link limits a run: NVLink or PCIe inside a node, the NICs between nodes, in words and with what to expect.

A ring over several nodes moves at the speed of its slowest part: min(inside a node, all NICs of a node together).
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from gpudoctor.knowledge import pci_address
from gpudoctor.knowledge.bandwidth.expected import Expected, Way, between_rdma, between_tcp, inside
from gpudoctor.knowledge.bandwidth.families import family, nvlink_words
from gpudoctor.knowledge.gpus.gpu_labels import sysfs_address
from gpudoctor.knowledge.nccl.fabric import has_nvlink_sharp
from gpudoctor.knowledge.nccl.interfaces import nccl_choice
from gpudoctor.knowledge.nccl.log import LogFacts, PeerPath
from gpudoctor.knowledge.nccl.rails import rails
from gpudoctor.knowledge.nccl.socket_transport import data_over_sockets
from gpudoctor.knowledge.network.pcie import generation_of, link_bytes_per_second
from gpudoctor.knowledge.network.rdma_selection import rdma_choice
from gpudoctor.knowledge.network.topology import nvlinks_between
from gpudoctor.knowledge.presence import if_present
from gpudoctor.knowledge.wording import counted
from gpudoctor.snapshot import Gpu, NotRead, RdmaDevice, RdmaPort, Snapshot


class Link(Struct, frozen=True):
    """A part of the path, and what to expect of it."""

    words: str
    """ "NVLink 4 through NVSwitch, 8 GPUs", "8 x 400 Gb/s InfiniBand a node"."""
    expected: Expected | None = None
    reason: str = ""
    """Why there is no expectation."""
    is_network: bool = False
    doubt: str = ""
    """Why less than the expectation may be all that the hardware offers; empty where it is known to offer more."""


RDMA_PLUGIN = "IBext"
"""How NVIDIA's nccl-rdma-sharp-plugins of HPC-X and the NGC images names itself ("IBext_v8"): the same verbs over the
same HCAs as NCCL's own transport, beside SHARP, which is off unless NCCL_COLLNET_ENABLE=1."""
SLOWEST_INSIDE = 4.0
"""GB/s. GPUs of one node that talk through host memory reach 4.9 (nccl#445): a slower network limits whatever is
inside the nodes."""


def limiting(links: Iterable[Link]) -> Link:
    """The slowest of the parts. One of which nothing is known makes the whole unknown, for it may be the slowest."""
    parts = list(links)
    known = [link for link in parts if link.expected is not None]
    # Of several that are alike, one of which less may be all that it offers.
    slowest = min(
        known, key=lambda link: (link.expected.reached if link.expected else 0.0, not link.doubt), default=None
    )
    unknown = [link for link in parts if link.expected is None]
    if slowest is not None and slowest.expected is not None:
        slow_network = slowest.is_network and slowest.expected.reached <= SLOWEST_INSIDE
        if not unknown or (slow_network and not any(link.is_network for link in unknown)):
            return slowest
    return unknown[0]


def inside_node(machine: Snapshot, addresses: Sequence[str], way: Way, log: LogFacts) -> Link:
    """The link between the GPUs of a node that take part, by their PCI addresses. Never raises."""
    try:
        return _inside(machine, addresses, way, log)
    except NotRead as error:
        return Link(counted(len(addresses), "GPU"), reason=f"the links between the GPUs were not read: {error}")


def _inside(machine: Snapshot, addresses: Sequence[str], way: Way, log: LogFacts) -> Link:
    gpus = gpus_at(machine, addresses)
    count = len(addresses)
    if len(gpus) < count:
        return Link(counted(count, "GPU"), reason="not all GPUs of the run are in what was read of this node")
    pairs = [(one, other) for one in gpus for other in gpus if one.index < other.index]
    joined = [pair for pair in pairs if nvlinks_between(machine, *pair)]
    families = {family(gpu.name.value) for gpu in gpus}
    name = families.pop() if len(families) == 1 else ""
    if "SHM" in log.transports() and not joined:
        return Link(
            f"host memory (SHM), {counted(count, 'GPU')}",
            reason="nothing is published for GPUs that talk through host memory",
        )
    if joined:
        kind = _nvlink_kind(gpus)
        generation = nvlink_words(gpus[0].compute_capability.value_or(None))
        words = f"{generation}{' through NVSwitch' if kind == 'nvswitch' else ''}, {counted(count, 'GPU')}"
        cube = name == "V100" and count == 8  # DGX-1's mesh: rings need no link between every pair
        if len(joined) < len(pairs) and not cube:
            return Link(
                f"PCIe and {generation}, {counted(count, 'GPU')}",
                reason=f"NVLink joins {len(joined)} of {counted(len(pairs), 'pair')} of GPUs, so rings go over PCIe, "
                "and nothing is published for that",
            )
        return _published(words, kind, name, count, way)
    return _published(pcie_words(gpus), "pcie", name, count, "ring")


def _nvlink_kind(gpus: Sequence[Gpu]) -> str:
    switched = all(any(link.active and link.remote == "switch" for link in gpu.nvlinks.value_or(())) for gpu in gpus)
    return "nvswitch" if switched else "nvlink"


def _published(words: str, kind: str, name: str, count: int, way: Way) -> Link:
    expected = inside(kind, name, count, way)
    if expected is None and way == "nvls":
        expected = inside(kind, name, count, "ring")  # the NVSwitch may help; rings are what can be asked for
    what = f"{count} x {name}" if name else f"{counted(count, 'GPU')} of this model"
    return Link(words, expected, "" if expected else f"nothing is published for {what} over this link")


def pcie_words(gpus: Sequence[Gpu]) -> str:
    """ "PCIe gen 4 x16, 4 GPUs": the narrowest. The generation is what the link can do, for an idle GPU lowers it."""
    known = [
        (gpu.pcie_generation_max.value, gpu.pcie_width.value)
        for gpu in gpus
        if gpu.pcie_generation_max.is_read and gpu.pcie_width.is_read
    ]
    if not known:
        return f"PCIe, {counted(len(gpus), 'GPU')}"
    generation, width = min(known, key=lambda pair: link_bytes_per_second(*pair))
    return f"PCIe gen {generation} x{width}, {counted(len(gpus), 'GPU')}"


def gpus_at(machine: Snapshot, addresses: Iterable[str]) -> list[Gpu]:
    """The GPUs at these PCI addresses, in any form. Raises `NotRead`."""
    wanted = {in_sysfs(address) for address in addresses}
    return [gpu for gpu in machine.nvidia.gpus.value if sysfs_address(gpu) in wanted]


def in_sysfs(address: str) -> str:
    """sysfs' form of an address; what is no address is kept as it is."""
    try:
        return pci_address.in_sysfs(address)
    except ValueError:
        return address


def reduces_in_switch(machine: Snapshot, log: LogFacts) -> bool:
    """Whether the NVSwitch adds up for all_reduce here, as far as log and hardware tell. Never raises."""
    if log.nvls_available is False or log.nvls_channels == 0:
        return False
    try:
        return has_nvlink_sharp(machine)
    except NotRead:
        return False


# ---------------------------------------------------------------- between nodes


def between_nodes(machine: Snapshot, addresses: Sequence[str], log: LogFacts) -> Link:
    """The network of one node as the run used it. Never raises."""
    try:
        network = network_used(machine, log)
        if network == "Socket":
            return _tcp(machine, log)
        if network == "IB" or (network == "" and not if_present(machine.network.net_plugins)):
            return _rdma(machine, addresses, log)
        return _plugin(machine, network)
    except NotRead as error:
        return Link("the network", reason=f"the NICs were not read: {error}", is_network=True)


def network_of(log: LogFacts) -> str:
    """ "IB", "Socket" or a plugin's name, by the paths in use; by the name that NCCL gives where no path is known."""
    used = {path.transport.partition("/")[2] for path in log.paths if path.transport.startswith("NET/")}
    name = used.pop() if len(used) == 1 else log.network
    return "IB" if name.startswith(RDMA_PLUGIN) else name


def network_used(machine: Snapshot, log: LogFacts) -> str:
    """As `network_of`; where the log does not say, "Socket" where the machine has nothing else. Raises `NotRead`."""
    return network_of(log) or ("Socket" if data_over_sockets(machine) else "")


def socket_names(machine: Snapshot, log: LogFacts) -> tuple[str, ...]:
    """The interfaces that NCCL's sockets use: as it has logged, else as it chooses. Raises `NotRead`."""
    return tuple(socket_interface.name for socket_interface in log.socket_interfaces) or nccl_choice(machine).names


def over_verbs(path: PeerPath) -> bool:
    """Whether it is the IB transport's, or NVIDIA's plugin's that does the same."""
    return path.transport == "NET/IB" or path.transport.startswith(f"NET/{RDMA_PLUGIN}")


def gpu_direct_used(log: LogFacts) -> bool | None:
    """Whether all paths over the IB transport use GPUDirect RDMA; None when the log shows none."""
    seen = [path.gdr for path in log.paths if over_verbs(path)]
    return all(seen) if seen else None


def _rdma(machine: Snapshot, addresses: Sequence[str], log: LogFacts) -> Link:
    ports = used_ports(machine, addresses)
    if not ports:
        return Link("RDMA", reason="no RDMA port of this node was found that NCCL would take", is_network=True)
    rates = tuple(sorted((port.rate_gbps.value for _, port in ports), reverse=True))
    direct = gpu_direct_used(log) is not False
    layers = {port.link_layer.value for _, port in ports}
    kind = "RoCE" if layers == {"Ethernet"} else "InfiniBand" if layers == {"InfiniBand"} else "RDMA"
    words = f"{rates_words(rates)} {kind} a node{'' if direct else ' without GPUDirect RDMA'}"
    return Link(words, between_rdma(rates, direct), is_network=True, doubt=doubt_of_cards(ports))


def doubt_of_cards(ports: Sequence[tuple[RdmaDevice, RdmaPort]]) -> str:
    """Why the cards' PCIe links may not carry what their ports do together; empty where they are known to.

    Functions of one card (the same domain and bus) share one link.
    """
    cards: dict[str, list[tuple[RdmaDevice, RdmaPort]]] = {}
    for device, port in ports:
        address = device.pci_bus_id.value_or("")
        cards.setdefault(address.rpartition(":")[0] or device.name, []).append((device, port))
    for card in cards.values():
        names = " and ".join(dict.fromkeys(device.name for device, _ in card))
        wanted = sum(port.rate_gbps.value for _, port in card)
        device = card[0][0]
        generation, width = generation_of(device.pcie_speed), device.pcie_width
        whose = f"{names} share one card and its PCIe link, which" if len(card) > 1 else f"the PCIe link of {names}"
        if generation is None or not width:
            return f"{whose} was not read, so nothing says that it carries {wanted:g} Gb/s"
        carries = link_bytes_per_second(generation, width) * 8 / 1e9
        if carries < wanted:
            return f"{whose} is gen {generation} x{width} and carries {carries:.0f} of {wanted:g} Gb/s"
    return ""


def used_ports(machine: Snapshot, addresses: Sequence[str]) -> list[tuple[RdmaDevice, RdmaPort]]:
    """The ports that NCCL takes and gives to a GPU of the run; all that it takes where none is known.

    NCCL gives each GPU the NICs it reaches best, so a storage port beside the CPU carries nothing. Raises `NotRead`.
    """
    taken = set(rdma_choice(machine).taken)
    near = {device.name for address in addresses for device in rails(machine, in_sysfs(address), taken)}
    every = [
        (device, port)
        for device in machine.network.rdma_devices.value
        for port in device.ports
        if (device.name, port.number) in taken
    ]
    return [pair for pair in every if pair[0].name in near] or every


def rates_words(rates: Sequence[float]) -> str:
    """ "8 x 400 Gb/s", "400 + 200 Gb/s"."""
    if len(set(rates)) == 1:
        return f"{len(rates)} x {rates[0]:g} Gb/s"
    return f"{' + '.join(f'{rate:g}' for rate in rates)} Gb/s"


def _tcp(machine: Snapshot, log: LogFacts) -> Link:
    names = socket_names(machine, log)
    speeds: Mapping[str, int | None] = {
        interface.name: interface.speed_mbps for interface in machine.network.interfaces.value
    }
    if len(names) != 1:
        found = f"TCP over {', '.join(names)}" if names else "TCP"
        return Link(found, reason="nothing is published for TCP over several interfaces", is_network=True)
    name = names[0]
    speed = speeds.get(name)
    if not speed or speed < 0:
        return Link(f"TCP over {name}", reason=f"the speed of {name} is not known", is_network=True)
    words = f"TCP over {name}, {speed / 1000:g} Gb/s"
    expected = between_tcp(speed / 1000)
    reason = "" if expected else f"nothing is published for TCP over {speed / 1000:g} Gb/s"
    return Link(words, expected, reason, is_network=True)


def _plugin(machine: Snapshot, network: str) -> Link:
    """EFA, whose devices stand in /sys/class/infiniband; nothing is known of other plugins."""
    rates = tuple(
        port.rate_gbps.value
        for device in machine.network.rdma_devices.value
        for port in device.ports
        if device.driver == "efa" and port.state.value == "ACTIVE"
    )
    if rates and "libfabric" in network.lower():
        return Link(f"{rates_words(rates)} EFA a node", between_rdma(rates, True), is_network=True)
    return Link(
        network or "a network plugin", reason=f"nothing is published for {network or 'this plugin'}", is_network=True
    )
