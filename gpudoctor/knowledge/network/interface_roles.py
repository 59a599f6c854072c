"""What an interface is good for: whether other nodes can be behind it, and which one to recommend.

The names of container networks are those that docker, podman, CNI plugins, libvirt, OVN-Kubernetes,
Antrea and Tailscale give by default.
"""

from collections.abc import Sequence

from gpudoctor.snapshot import Interface, Reading, Snapshot, read

HOST_ENDS = ("veth", "cali", "lxc", "vnet", "tap", "cni", "gke", "eni", "azv")
"""Host ends of containers' and virtual machines' networks. Inside the container the other end is eth0 or net1."""
OVERLAYS = (
    "flannel",
    "cni",
    "cilium",
    "tailscale",
    "virbr",
    "docker",
    "podman",
    "weave",
    "kube-",
    "nodelocaldns",
    "lxdbr",
    "ovn-k8s-mp",
    "antrea-gw",
)
"""Networks inside this machine, or laid over another one for small traffic."""
REAL_KINDS = frozenset({"ethernet", "ipoib", "bond", "vlan", "virtual-function", "wireless"})


def find(interfaces: Sequence[Interface], name: str) -> Interface | None:
    return next((interface for interface in interfaces if interface.name == name), None)


def inside_reason(interface: Interface, interfaces: Sequence[Interface]) -> str:
    """Why no other node is expected behind an interface, as a noun phrase; "" where one may be."""
    if interface.kind == "loopback":
        return "the loopback interface"
    if interface.kind == "docker" or interface.name.startswith("docker"):
        return "a bridge of docker"
    if interface.name.startswith(OVERLAYS):
        return "a network of containers, virtual machines or a VPN"
    if interface.kind == "bridge":
        members = [find(interfaces, name) for name in interface.members]
        is_real = any(member is not None and member.kind in REAL_KINDS for member in members)
        return "" if is_real else "a bridge without a physical port"
    if interface.kind in ("veth", "other") and interface.name.startswith(HOST_ENDS):
        return "the host's end of a container's network"
    if interface.kind in ("tun", "tunnel"):
        return "a tunnel"
    return "a dummy interface" if interface.kind == "dummy" else ""


def has_address(interface: Interface) -> bool:
    """Whether it has an address that other machines could use."""
    return any(address.scope == "global" for address in interface.addresses)


def recommended(machine: Snapshot) -> Interface | None:
    """The interface to name where one must be named: the default route's, else the first that leads out.

    Raises `NotRead` when the interfaces were not read.
    """
    interfaces = machine.network.interfaces.value
    fit = [
        interface
        for interface in interfaces
        if interface.is_running and has_address(interface) and not inside_reason(interface, interfaces)
    ]
    routes = [route for route in machine.network.routes.value_or(()) if route.destination in ("0.0.0.0/0", "::/0")]
    for route in sorted(routes, key=lambda route: (route.destination != "0.0.0.0/0", route.metric)):
        if interface := find(fit, route.interface):
            return interface
    return fit[0] if fit else None


def siblings(machine: Snapshot) -> list[list[Interface]]:
    """Running physical ports of the same driver and board: two or more of them are taken for one fabric's.

    One driver serves the NICs of a fabric and of the management network alike; their RDMA devices tell the boards
    apart. Raises `NotRead`.
    """
    boards = {
        name: device.board_id.value_or("")
        for device in machine.network.rdma_devices.value_or(())
        for name in device.interfaces
    }
    groups: dict[tuple[str, str, str], list[Interface]] = {}
    for interface in machine.network.interfaces.value:
        if interface.kind in ("ethernet", "ipoib") and interface.driver and interface.is_running:
            key = interface.kind, interface.driver, boards.get(interface.name, "")
            groups.setdefault(key, []).append(interface)
    return [group for group in groups.values() if len(group) > 1]


def seen(machine: Snapshot, *names: str) -> Reading[tuple[str, ...]]:
    """What was read of these interfaces, as evidence: of hundreds, those that it is about. Raises `NotRead`."""
    every = machine.network.interfaces
    return read(every.source, tuple(described(interface) for interface in every.value if interface.name in names))


def described(interface: Interface) -> str:
    """ "eth0 (ethernet, up, 100 Gb/s, MTU 1500, 192.0.2.11/24)"."""
    state = "up" if interface.is_running else "no link" if interface.is_up else "down"
    speed = f"{interface.speed_mbps / 1000:g} Gb/s" if interface.speed_mbps else ""
    mtu = f"MTU {interface.mtu}" if interface.mtu else ""
    addresses = (f"{address.address}/{address.prefix_length}" for address in interface.addresses[:4])
    return f"{interface.name} ({', '.join(filter(None, (interface.kind, state, speed, mtu, *addresses)))})"
