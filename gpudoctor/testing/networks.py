"""Healthy networks for the machines of gpudoctor/testing/machines.py, and the devices to change one of.

machine = with_network(h100_node(), rdma_devices=read(SYSFS, (rdma_device(0, port(state="DOWN")),)))
"""

from typing import Any

import msgspec

from gpudoctor.snapshot import (
    Address,
    ConfigFile,
    DeviceNode,
    Gid,
    GpuDirect,
    Interface,
    Network,
    PciPath,
    RdmaDevice,
    RdmaPort,
    Reading,
    Route,
    Snapshot,
    absent,
    read,
)

RDMA = "/sys/class/infiniband"
NAMES = ("NCCL_CONF_FILE", "NCCL_DEBUG", "NCCL_IB_DISABLE", "NCCL_IB_HCA", "NCCL_NET_GDR_LEVEL", "NCCL_SOCKET_IFNAME")
"""A few of the names that a libnccl holds."""


def with_network(machine: Snapshot, **facts: Any) -> Snapshot:
    """The machine with facts of its network replaced; a mere value keeps the fact's source."""
    network = machine.network
    read_there = {name: as_reading(fact, getattr(network, name).source) for name, fact in facts.items()}
    return msgspec.structs.replace(machine, network=msgspec.structs.replace(network, **read_there))


def as_reading(fact: Any, source: str) -> Reading[Any]:
    return fact if isinstance(fact, Reading) else read(source, fact)


def with_rdma(machine: Snapshot, *devices: RdmaDevice) -> Snapshot:
    """The machine with these RDMA devices and no others."""
    return with_network(machine, rdma_devices=read(RDMA, devices), rdma_nodes=rdma_nodes(len(devices)))


def with_interfaces(machine: Snapshot, *interfaces: Interface) -> Snapshot:
    """The machine with these interfaces after `lo`, in getifaddrs' order."""
    numbered = tuple(
        msgspec.structs.replace(each, index=number) for number, each in enumerate((loopback(), *interfaces), start=1)
    )
    return with_network(machine, interfaces=read("getifaddrs", numbered))


def changed_device(machine: Snapshot, name: str, **fields: Any) -> Snapshot:
    """The machine with fields of one RDMA device replaced."""
    devices = tuple(
        msgspec.structs.replace(device, **fields) if device.name == name else device
        for device in machine.network.rdma_devices.value
    )
    return with_network(machine, rdma_devices=read(RDMA, devices))


def changed_port(machine: Snapshot, name: str, **fields: Any) -> Snapshot:
    """The machine with facts of an RDMA device's ports replaced; values are read from sysfs."""
    device = next(device for device in machine.network.rdma_devices.value if device.name == name)
    facts = {field: _sysfs(name, value) for field, value in fields.items()}
    ports = tuple(msgspec.structs.replace(rdma_port, **facts) for rdma_port in device.ports)
    return changed_device(machine, name, ports=ports)


def changed_interface(machine: Snapshot, name: str, **fields: Any) -> Snapshot:
    """The machine with fields of one interface replaced."""
    interfaces = tuple(
        msgspec.structs.replace(each, **fields) if each.name == name else each
        for each in machine.network.interfaces.value
    )
    return with_network(machine, interfaces=read("getifaddrs", interfaces))


# ---------------------------------------------------------------- RDMA


def _sysfs(device: str, value: Any) -> Reading[Any]:
    return as_reading(value, f"{RDMA}/{device}/ports/1")


def port(device: str = "mlx5_0", number: int = 1, **facts: Any) -> RdmaPort:
    """An ACTIVE InfiniBand NDR port; facts are values, or readings."""
    index = int("".join(filter(str.isdigit, device.partition("_")[2])) or 0)
    healthy: dict[str, Any] = {
        "state": "ACTIVE",
        "physical_state": "LinkUp",
        "rate_gbps": 400.0,
        "link_layer": "InfiniBand",
        "lid": 100 + index,
        "subnet_manager_lid": 1,
        "gids": (Gid(0, f"fe80:0000:0000:0000:a088:c203:00a1:{0x1000 + index:04x}", "IB/RoCE v1"),),
        "counters": {},
        "counting": {},
    }
    return RdmaPort(number, **{name: _sysfs(device, value) for name, value in (healthy | facts).items()})


def roce_port(device: str = "mlx5_0", number: int = 1, *, interface: str, address: str, **facts: Any) -> RdmaPort:
    """An ACTIVE RoCE port with the GIDs that the kernel makes of one IPv4 address: v1 and v2 of each."""
    facts = {
        "rate_gbps": 200.0,
        "link_layer": "Ethernet",
        "lid": 0,
        "subnet_manager_lid": 0,
        "gids": roce_gids(interface, address),
    } | facts
    return port(device, number, **facts)


def roce_gids(interface: str, address: str, types: tuple[str, ...] = ("IB/RoCE v1", "RoCE v2")) -> tuple[Gid, ...]:
    """Link-local GIDs first, then those of the IPv4 address, each once a type: indices 0 to 3 with both types."""
    numbers = [int(part) for part in address.split(".")]
    last = numbers[3]
    mapped = "0000:0000:0000:0000:0000:ffff:{:02x}{:02x}:{:02x}{:02x}".format(*numbers)
    local = f"fe80:0000:0000:0000:a288:c2ff:fe12:{0x3400 + last:04x}"
    pairs = [(gid, kind) for gid in (local, mapped) for kind in types]
    return tuple(Gid(index, gid, kind, interface) for index, (gid, kind) in enumerate(pairs))


def rdma_device(index: int, *ports: RdmaPort, **fields: Any) -> RdmaDevice:
    """A ConnectX-7, mlx5_`index`, behind the same PCIe switch as GPU `index` of h100_node."""
    name = str(fields.pop("name", f"mlx5_{index}"))
    healthy: dict[str, Any] = {
        "driver": "mlx5_core",
        "board_id": read(f"{RDMA}/{name}/board_id", "MT_0000000838"),
        "firmware": read(f"{RDMA}/{name}/fw_ver", "28.39.1002"),
        "numa_node": read(f"{RDMA}/{name}/device/numa_node", index // 4),
        "pci_bus_id": read(f"{RDMA}/{name}/device", hca_address(index)),
        "pcie_speed": "32.0 GT/s PCIe",
        "pcie_width": 16,
    }
    facts = {
        field: as_reading(value, f"{RDMA}/{name}/{field}")
        if field in ("board_id", "firmware", "numa_node", "pci_bus_id")
        else value
        for field, value in fields.items()
    }
    return RdmaDevice(name, ports=ports or (port(name),), **(healthy | facts))


def rdma_nodes(count: int) -> Reading[tuple[DeviceNode, ...]]:
    """/dev/infiniband of a machine with so many RDMA devices."""
    names = ["rdma_cm", *(f"uverbs{index}" for index in range(count))] if count else []
    return read(
        "/dev/infiniband",
        tuple(DeviceNode(f"/dev/infiniband/{name}", True, True, 0o666, "root", "root") for name in names),
    )


# ---------------------------------------------------------------- PCI


def gpu_address(index: int) -> str:
    """Where h100_node's GPU sits, as sysfs writes it."""
    return f"0000:{0x1B + 0x10 * index:02x}:00.0"


def hca_address(index: int) -> str:
    """Where the HCA beside that GPU sits."""
    return f"0000:{0x18 + 0x10 * index:02x}:00.0"


def switch_path(bus_id: str, index: int, slot: int) -> PciPath:
    """A device below slot `slot` of PCIe switch `index`, which has a root port of its own."""
    bus = 0x15 + 0x10 * index
    upstream = (f"0000:{bus + 2:02x}:{slot:02x}.0", f"0000:{bus + 1:02x}:00.0", f"0000:{bus:02x}:01.0")
    return PciPath(bus_id, upstream, f"pci0000:{bus:02x}", index // 4)


def root_path(bus_id: str, root: str = "pci0000:00", numa_node: int = 0) -> PciPath:
    """A device directly below a root port of the host bridge `root`."""
    function, slot = divmod(int(bus_id[5:7], 16), 32)
    return PciPath(bus_id, (f"0000:{root[-2:]}:{slot:02x}.{function}",), root, numa_node)


def pci_paths(*paths: PciPath) -> Reading[dict[str, PciPath]]:
    return read("/sys/bus/pci/devices", {path.bus_id: path for path in paths})


# ---------------------------------------------------------------- interfaces


def loopback() -> Interface:
    return Interface(
        "lo", 1, "loopback", (Address("inet", "127.0.0.1", 8, "host"), Address("inet6", "::1", 128, "host")),
        is_up=True, is_running=True, operstate="unknown", mtu=65536, mac="00:00:00:00:00:00",
    )  # fmt: skip


def interface(name: str, *addresses: str, kind: str = "ethernet", **fields: Any) -> Interface:
    """An interface that is up and running; addresses as "10.0.0.1/24" or "2001:db8::1/64"."""
    healthy: dict[str, Any] = {
        "is_up": True,
        "is_running": True,
        "operstate": "up",
        "speed_mbps": 100_000 if kind == "ethernet" else None,
        "mtu": 1500,
        "mac": "02:00:00:00:{:02x}:{:02x}".format(*divmod(sum(name.encode()), 256)),
        "driver": "ice" if kind == "ethernet" else "",
    }
    return Interface(name, fields.pop("index", 2), kind, tuple(map(_address, addresses)), **(healthy | fields))


def _address(text: str) -> Address:
    address, _, length = text.partition("/")
    local = address.startswith(("169.254.", "fe80:"))
    return Address("inet6" if ":" in address else "inet", address, int(length), "link" if local else "global")


def default_route(interface: str, gateway: str = "192.0.2.1") -> Route:
    return Route("0.0.0.0/0", gateway, interface, 100)


# ---------------------------------------------------------------- NCCL's files


def nccl_files(**settings: dict[str, str]) -> Reading[tuple[ConfigFile, ...]]:
    """The files that NCCL reads: `user` is ~/.nccl.conf, `system` /etc/nccl.conf; those not given do not exist."""
    paths = {"user": "/root/.nccl.conf", "system": "/etc/nccl.conf"}
    return read(
        ", ".join(paths.values()),
        tuple(
            ConfigFile(path, read(path, settings[whose]) if whose in settings else absent(path, "no such file"))
            for whose, path in paths.items()
        ),
    )


# ---------------------------------------------------------------- whole networks


def ethernet(nic: Interface, *paths: PciPath) -> Network:
    """A network of one NIC and no RDMA; the NIC's first address is 192.0.2.11, as the host's name resolves."""
    return Network(
        rdma_devices=read(RDMA, ()),
        rdma_nodes=rdma_nodes(0),
        verbs_library=read("ld.so.cache", ""),
        gpu_direct=read("/sys", GpuDirect(open_kernel_module=True)),
        interfaces=read("getifaddrs", (loopback(), nic)),
        routes=read("/proc/net/route", (default_route(nic.name), Route("192.0.2.0/24", "", nic.name))),
        nccl_files=nccl_files(),
        nccl_names=read("libnccl.so.2", NAMES),
        net_plugins=read("ld.so.cache", ()),
        rendezvous=absent("environment", "MASTER_ADDR is not set"),
        rank_settings=read("/proc/*/environ", ()),
        ephemeral_ports=read("/proc/sys/net/ipv4/ip_local_port_range", (32768, 60999)),
        firewalls=read("nft, iptables", ()),
        pci_paths=pci_paths(*paths),
    )


def server_network(gpus: int) -> Network:
    """An HGX node: an NDR InfiniBand HCA beside each GPU, peer memory, and a 100G management port."""
    nic = interface("eth0", "192.0.2.11/24", pci_bus_id="0000:05:00.0", numa_node=0)
    paths = [root_path("0000:05:00.0")]
    for index in range(gpus):
        paths += [switch_path(gpu_address(index), index, 4), switch_path(hca_address(index), index, 0)]
    return msgspec.structs.replace(
        ethernet(nic, *paths),
        rdma_devices=read(RDMA, tuple(map(rdma_device, range(gpus)))),
        rdma_nodes=rdma_nodes(gpus),
        verbs_library=read("ld.so.cache", "/usr/lib/x86_64-linux-gnu/libibverbs.so.1"),
        gpu_direct=read("/sys", GpuDirect(nvidia_peermem="580.95.05", open_kernel_module=True)),
    )


def virtual_network(gpus: int) -> Network:
    """A cloud VM: one virtual NIC whose speed nobody knows, all devices directly below the root."""
    nic = interface("ens5", "192.0.2.11/24", speed_mbps=None, mtu=9001, driver="ena", pci_bus_id="0000:00:05.0")
    flat = [PciPath(address, (), "pci0000:00", 0) for address in ("0000:00:05.0", *map(gpu_address, range(gpus)))]
    return ethernet(nic, *flat)


def workstation_network(gpus: int) -> Network:
    """One 10G port; each GPU has a root port of its own on one socket."""
    nic = interface("enp6s0", "192.0.2.11/24", speed_mbps=10_000, driver="ixgbe", pci_bus_id="0000:06:00.0")
    cards = [
        PciPath(gpu_address(index), (f"0000:00:{1 + index:02x}.1",), "pci0000:00", index // 4) for index in range(gpus)
    ]
    return ethernet(nic, root_path("0000:06:00.0"), *cards)
