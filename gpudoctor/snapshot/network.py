"""The network as training uses it: RDMA devices, interfaces, NCCL's configuration, rendezvous (read/rdma.py ...)."""

from msgspec import field

from gpudoctor import named
from gpudoctor.snapshot.accelerators import DeviceNode
from gpudoctor.snapshot.reading import NOT_IN_SNAPSHOT, Reading
from gpudoctor.snapshot.section import Section

# ---------------------------------------------------------------- RDMA (/sys/class/infiniband)


class Gid(Section, frozen=True):
    """One entry of a port's GID table that is not zero. `type` is "IB/RoCE v1" or "RoCE v2"; "" when unreadable."""

    index: int
    gid: named.Address
    """As sysfs writes it: eight groups of four hex digits."""
    type: str = ""
    interface: named.InterfaceOrNone = ""
    """The network interface it belongs to (gid_attrs/ndevs); empty when unreadable."""


class RdmaPort(Section, frozen=True):
    """One port of an RDMA device, as its sysfs folder says."""

    number: int
    state: Reading[str] = NOT_IN_SNAPSHOT
    """ "ACTIVE", "INIT", "DOWN", "ARMED" (the word after the number)."""
    physical_state: Reading[str] = NOT_IN_SNAPSHOT
    """ "LinkUp", "Polling", "Disabled", "Sleep", ..."""
    rate_gbps: Reading[float] = NOT_IN_SNAPSHOT
    """Gigabits per second of the whole link: 400 for "400 Gb/sec (4X NDR)"."""
    link_layer: Reading[str] = NOT_IN_SNAPSHOT
    """ "InfiniBand" or "Ethernet" (RoCE, EFA says "Unspecified")."""
    lid: Reading[int] = NOT_IN_SNAPSHOT
    subnet_manager_lid: Reading[int] = NOT_IN_SNAPSHOT
    gids: Reading[tuple[Gid, ...]] = NOT_IN_SNAPSHOT
    gid_entries: Reading[int] = NOT_IN_SNAPSHOT
    """How long its GID table is, with the entries that are empty."""
    counters: Reading[dict[str, int]] = NOT_IN_SNAPSHOT
    """Error and flap counters that are not zero, of counters/ and hw_counters/, by file name."""
    counting: Reading[dict[str, int]] = NOT_IN_SNAPSHOT
    """Those that grew between two looks, and by how much."""


class RdmaDevice(Section, frozen=True):
    """One device of /sys/class/infiniband: an HCA, a RoCE NIC or an EFA device."""

    name: named.DeviceName
    driver: str = ""
    """ "mlx5_core", "bnxt_re", "efa", ... from the device link."""
    board_id: Reading[str] = NOT_IN_SNAPSHOT
    firmware: Reading[str] = NOT_IN_SNAPSHOT
    numa_node: Reading[int] = NOT_IN_SNAPSHOT
    pci_bus_id: Reading[named.PciAddress] = NOT_IN_SNAPSHOT
    """As in sysfs: "0000:1a:00.0"; absent for a device without PCI (soft RoCE)."""
    pcie_speed: str = ""
    """As sysfs writes it of the card's link: "32.0 GT/s PCIe"; empty where it does not tell."""
    pcie_width: int | None = None
    """Lanes; None where there is no link."""
    is_virtual_function: bool = False
    interfaces: tuple[named.InterfaceName, ...] = ()
    """Network interfaces of the same PCI function."""
    uverbs: named.DeviceOrNone = ""
    """Its file below /dev/infiniband, by which libibverbs opens it: "uverbs0"; empty where nothing says."""
    ports: tuple[RdmaPort, ...] = ()


class GpuDirect(Section, frozen=True):
    """What GPUDirect RDMA needs of the kernel: NCCL's three places of the peer memory module, and DMA-BUF."""

    nv_peer_mem: str = ""
    """Version at /sys/kernel/mm/memory_peers/nv_mem/version; empty when not there."""
    nv_peer_mem_nc: str = ""
    """/sys/kernel/mm/memory_peers/nv_mem_nc/version (NCCL >= 2.22.3)."""
    nvidia_peermem: str = ""
    """/sys/module/nvidia_peermem/version (NCCL >= 2.23.4)."""
    open_kernel_module: bool | None = None
    """/proc/driver/nvidia/version names the open module; None when it does not say."""


# ---------------------------------------------------------------- interfaces


class Address(Section, frozen=True):
    """An address of an interface."""

    family: str
    """ "inet" or "inet6"."""
    address: named.Address
    prefix_length: int
    scope: str = "global"
    """ "global", "link" (169.254/16, fe80::/10) or "host" (loopback)."""


class Interface(Section, frozen=True):
    """A network interface, in getifaddrs' order (NCCL takes them in that order)."""

    name: named.InterfaceName
    index: int
    kind: str
    """ "ethernet", "ipoib", "loopback", "bond", "vlan", "bridge", "veth", "docker", "tunnel", "virtual-function",
    "tun", "dummy", "wireless" or "other"."""
    addresses: tuple[Address, ...] = ()
    is_up: bool = False
    """IFF_UP."""
    is_running: bool = False
    """IFF_RUNNING."""
    operstate: str = ""
    speed_mbps: int | None = None
    """None when the kernel does not say (VMs, virtual interfaces)."""
    mtu: int | None = None
    mac: str = ""
    master: named.InterfaceOrNone = ""
    """The bond or bridge that it belongs to."""
    members: tuple[named.InterfaceName, ...] = ()
    driver: str = ""
    pci_bus_id: named.PciOrNone = ""
    numa_node: int | None = None


class Route(Section, frozen=True):
    """A route of the main table. `destination` is a prefix; "0.0.0.0/0" and "::/0" are default routes."""

    destination: named.Subnet
    gateway: named.Address
    interface: named.InterfaceName
    metric: int = 0


# ---------------------------------------------------------------- NCCL's configuration


class ConfigFile(Section, frozen=True):
    """A file that NCCL reads for settings, in NCCL's order of precedence after the environment."""

    path: str
    settings: Reading[dict[named.SettingName, str]] = NOT_IN_SNAPSHOT
    """Absent when there is no such file."""
    with_return: tuple[named.SettingName, ...] = ()
    """Names whose value ends in a carriage return, which `settings` leaves out and NCCL before 2.30.3 keeps."""
    home_of: str = ""
    """Of a .nccl.conf where /etc/passwd and $HOME name different folders: "passwd", which NCCL before 2.30.3 reads, or
    "HOME", which it reads since."""


# ---------------------------------------------------------------- rendezvous


class Rendezvous(Section, frozen=True):
    """MASTER_ADDR and MASTER_PORT as they stand in the environment, tried out."""

    address: str
    port: int | None
    """None when MASTER_PORT is unset or no number."""
    resolved: Reading[tuple[named.Address, ...]] = NOT_IN_SNAPSHOT
    """() when the name does not resolve."""
    is_local: Reading[bool] = NOT_IN_SNAPSHOT
    """Whether an address of this machine is among them."""
    listener: Reading[str] = NOT_IN_SNAPSHOT
    """For a local address: who listens on the port ("pid 123 python"), "" for nobody."""
    connection: Reading[str] = NOT_IN_SNAPSHOT
    """For a remote address: "accepted", "refused", "unreachable" or "no answer" of one TCP connection."""
    proxies: tuple[named.VariableName, ...] = ()
    """Names (never values) of the proxy variables that apply to the address: set, and no_proxy does not except it."""


class RankSettings(Section, frozen=True):
    """A rank that runs on this machine, and the settings that it was started with."""

    pid: int
    rank: int
    world_size: int
    local_rank: int | None = None
    master_address: str = ""
    """MASTER_ADDR; with the port and the run id it tells jobs apart."""
    master_port: str = ""
    run_id: str = ""
    """TORCHELASTIC_RUN_ID; empty for torchrun's default."""
    network_namespace: str = ""
    """Target of /proc/PID/ns/net: a loopback master is another one in each container."""
    settings: dict[named.VariableName, str] = field(default_factory=dict)
    """Its NCCL_*, TORCH_NCCL_*, GLOO_* and TP_* variables that may be recorded."""
    user_id: int = -1
    """Whose process it is: ranks of one job are one user's; -1: not told."""


class Firewall(Section, frozen=True):
    """What could be seen of packet filters: rules that drop or reject, by tool."""

    tool: str
    """ "nft", "iptables" or "firewalld"."""
    drops_input: bool
    rules: tuple[str, ...] = ()
    """The rules or policies that drop, as the tool prints them (at most 20)."""


# ---------------------------------------------------------------- topology


class PciPath(Section, frozen=True):
    """Where a GPU, NIC or NVSwitch sits: the PCI addresses from it up to the root port, and its CPU."""

    bus_id: named.PciAddress
    upstream: tuple[named.PciAddress, ...] = ()
    """Nearest bridge first; the last one is the root port."""
    root: str = ""
    """The host bridge: "pci0000:16"."""
    numa_node: int = -1


class Network(Section, frozen=True):
    """Everything between this machine and the others, and between its GPUs and NICs."""

    rdma_devices: Reading[tuple[RdmaDevice, ...]] = NOT_IN_SNAPSHOT
    """() where /sys/class/infiniband is empty or not there: no RDMA."""
    rdma_nodes: Reading[tuple[DeviceNode, ...]] = NOT_IN_SNAPSHOT
    """/dev/infiniband/*."""
    verbs_library: Reading[str] = NOT_IN_SNAPSHOT
    """Path of libibverbs.so.1; "" when the loader would find none."""
    gpu_direct: Reading[GpuDirect] = NOT_IN_SNAPSHOT
    interfaces: Reading[tuple[Interface, ...]] = NOT_IN_SNAPSHOT
    routes: Reading[tuple[Route, ...]] = NOT_IN_SNAPSHOT
    nccl_files: Reading[tuple[ConfigFile, ...]] = NOT_IN_SNAPSHOT
    communicator_addresses: Reading[tuple[named.Address, ...]] = NOT_IN_SNAPSHOT
    """Of the host in NCCL_COMM_ID, in the resolver's order; () where it has none. Absent when it is not set."""
    nccl_names: Reading[tuple[named.VariableName, ...]] = NOT_IN_SNAPSHOT
    """The NCCL_* names inside the libnccl that torch would load; absent when there is none."""
    net_plugins: Reading[tuple[str, ...]] = NOT_IN_SNAPSHOT
    """Paths of libnccl-net*.so that the loader would find, in its order."""
    nccl_paths: Reading[dict[str, bool]] = NOT_IN_SNAPSHOT
    """Files that NCCL's settings name (NCCL_TOPO_FILE ...), as they are written there: whether each can be opened."""
    rendezvous: Reading[Rendezvous] = NOT_IN_SNAPSHOT
    """Absent when MASTER_ADDR is not set."""
    rank_settings: Reading[tuple[RankSettings, ...]] = NOT_IN_SNAPSHOT
    """The ranks that run here, of this user (as root: of everybody)."""
    ephemeral_ports: Reading[tuple[int, int]] = NOT_IN_SNAPSHOT
    firewalls: Reading[tuple[Firewall, ...]] = NOT_IN_SNAPSHOT
    pci_paths: Reading[dict[named.PciAddress, PciPath]] = NOT_IN_SNAPSHOT
    """GPUs, RDMA and network devices by PCI address (sysfs form)."""
