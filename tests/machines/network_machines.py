"""Machines whose story is their network. What gpudoctor must say of them stands in network_expected.py."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from gpudoctor.snapshot import Gid, GpuDirect, Interface, NvLink, Snapshot, Space, absent, read
from gpudoctor.testing.machines import GIB, UNSUPPORTED, but, gpu, h100_node, node, rtx_4090_node, t4_node
from gpudoctor.testing.networks import (
    RDMA,
    changed_port,
    default_route,
    gpu_address,
    hca_address,
    interface,
    pci_paths,
    port,
    rdma_device,
    rdma_nodes,
    roce_gids,
    roce_port,
    root_path,
    switch_path,
    with_interfaces,
    with_network,
    with_rdma,
)
from tests.machines.hand_built import laptop, with_environment

MANAGEMENT = interface("eno1", "192.0.2.11/24", speed_mbps=10_000, driver="ixgbe")


def a100_node(count: int = 8) -> Snapshot:
    """A healthy HGX A100 whose network is still that of h100_node."""
    links = tuple(NvLink(link, True, "switch", replay_errors=0, recovery_errors=0, crc_errors=0) for link in range(12))
    cards = tuple(
        gpu(
            index,
            name="NVIDIA A100-SXM4-80GB",
            compute_capability=(8, 0),
            memory_total_bytes=80 * GIB,
            power_limit_watts=400.0,
            power_limit_default_watts=400.0,
            clock_sm_max_mhz=1410,
            pcie_generation=4,
            pcie_generation_max=4,
            nvlinks=links,
        )
        for index in range(count)
    )
    return node(cards)


def a100_pcie_node(count: int = 4) -> Snapshot:
    """PCIe cards, each below a root port of its own, one 100G port and no RDMA."""
    cards = tuple(
        gpu(
            index,
            name="NVIDIA A100 80GB PCIe",
            compute_capability=(8, 0),
            memory_total_bytes=80 * GIB,
            power_limit_watts=300.0,
            power_limit_default_watts=300.0,
            pcie_generation=4,
            pcie_generation_max=4,
            nvlinks=UNSUPPORTED,
            fabric=UNSUPPORTED,
        )
        for index in range(count)
    )
    return node(cards)


def wired(machine: Snapshot, *nics: Interface) -> Snapshot:
    """The machine with these interfaces; the default route leaves by the one that has the host's address."""
    host = machine.host.hostname_addresses.value[0]
    owner = next((nic.name for nic in nics if any(address.address == host for address in nic.addresses)), nics[0].name)
    machine = with_interfaces(machine, *nics)
    return with_network(machine, routes=(default_route(owner),))


def with_more_paths(machine: Snapshot, *bus_ids: str) -> Snapshot:
    """The machine with devices of their own root ports on socket 1, far from every GPU."""
    paths = machine.network.pci_paths.value
    more = [root_path(bus_id, "pci0000:e0", 1) for bus_id in bus_ids]
    return with_network(machine, pci_paths=pci_paths(*paths.values(), *more))


def paired(machine: Snapshot) -> Snapshot:
    """The machine as NVML sees it when GPU 0 and 1, 2 and 3, ... sit behind one switch each."""
    levels = tuple(
        msgspec.structs.replace(each, level="single") if each.gpu // 2 == each.other // 2 else each
        for each in machine.nvidia.topology.value
    )
    return but(machine, "nvidia.topology", levels)


# ---------------------------------------------------------------- InfiniBand

DGX_COMPUTE = (0, 3, 4, 5, 6, 9, 10, 11)
"""Numbers of the HCAs beside GPU 0 to 7 of a DGX H100."""
DGX_STORAGE = {"mlx5_1": ("enp226s0f0np0", "0000:e2:00.0"), "mlx5_7": ("enp227s0f0np0", "0000:e3:00.0")}


def dgx_h100() -> Snapshot:
    """Eight NDR rails with IPoIB down, and two 200G Ethernet ports for storage, ACTIVE like the others."""
    rails = tuple(
        rdma_device(gpu_index, port(f"mlx5_{number}"), name=f"mlx5_{number}", interfaces=(f"ibp{24 + gpu_index}s0",))
        for gpu_index, number in enumerate(DGX_COMPUTE)
    )
    storage = tuple(
        rdma_device(
            0,
            roce_port(name, interface=nic, address=f"198.51.{100 + number}.11"),
            name=name,
            board_id="MT_0000000834",
            numa_node=1,
            pci_bus_id=bus_id,
            interfaces=(nic,),
        )
        for number, (name, (nic, bus_id)) in enumerate(DGX_STORAGE.items())
    )
    machine = with_rdma(h100_node(), *sorted((*rails, *storage), key=lambda device: int(device.name[5:])))
    machine = with_more_paths(machine, "0000:e2:00.0", "0000:e3:00.0")
    nics = [
        interface(nic, f"198.51.{100 + number}.11/24", speed_mbps=200_000, mtu=9000, driver="mlx5_core", pci_bus_id=bus)
        for number, (nic, bus) in enumerate(DGX_STORAGE.values())
    ]
    return wired(machine, interface("eno3", "192.0.2.11/24", speed_mbps=10_000), *nics, *idle_ipoib(8))


def idle_ipoib(count: int) -> tuple[Interface, ...]:
    """IPoIB interfaces that nobody configured."""
    return tuple(
        interface(f"ibp{24 + index}s0", kind="ipoib", is_up=False, is_running=False, operstate="down", mtu=4092)
        for index in range(count)
    )


def a100_hdr() -> Snapshot:
    """Eight HDR rails, and IPoIB with an address on the first of them."""
    machine = a100_node()
    devices = tuple(
        rdma_device(index, port(f"mlx5_{index}", rate_gbps=200.0), board_id="MT_0000000223", firmware="20.39.1002")
        for index in range(8)
    )
    machine = with_rdma(machine, *devices)
    return wired(
        machine,
        MANAGEMENT,
        interface("ib0", "203.0.113.11/24", kind="ipoib", mtu=4092, driver="ib_ipoib"),
    )


def port_polling() -> Snapshot:
    """The cable of GPU 3's rail is out: its port is DOWN and polls."""
    return changed_port(h100_node(), "mlx5_3", state="DOWN", physical_state="Polling", lid=65535, rate_gbps=10.0)


def only_port_down() -> Snapshot:
    """A machine with one HCA, whose only port polls: everything goes over TCP."""
    machine = with_rdma(
        a100_pcie_node(),
        rdma_device(0, port(state="DOWN", physical_state="Polling", lid=65535, rate_gbps=10.0), numa_node=1),
    )
    machine = wired(machine, MANAGEMENT)
    machine = with_more_paths(machine, hca_address(0))
    return with_library(machine)


def with_library(machine: Snapshot) -> Snapshot:
    return with_network(machine, verbs_library="/usr/lib/x86_64-linux-gnu/libibverbs.so.1")


def subnet_manager_gone() -> Snapshot:
    """All links are up, and nobody gives out LIDs: every port stays in INIT."""
    machine = wired(h100_node(), MANAGEMENT)
    for index in range(8):
        machine = changed_port(machine, f"mlx5_{index}", state="INIT", lid=65535, subnet_manager_lid=0)
    return machine


def rail_missing() -> Snapshot:
    """The HCA of GPU 5 does not appear at all."""
    machine = h100_node()
    left = tuple(device for device in machine.network.rdma_devices.value if device.name != "mlx5_5")
    paths = {bus: path for bus, path in machine.network.pci_paths.value.items() if bus != hca_address(5)}
    return with_network(with_rdma(machine, *left), pci_paths=paths)


def ipoib_only() -> Snapshot:
    """InfiniBand works, the image has no libibverbs, and the only address is that of IPoIB: NCCL uses TCP over it."""
    machine = with_network(h100_node(), verbs_library="")
    return wired(machine, interface("ib0", "192.0.2.11/24", kind="ipoib", mtu=4092, driver="ib_ipoib"))


# ---------------------------------------------------------------- RoCE


def roce_bonded() -> Snapshot:
    """Four bonds of two 100G ports, each beside two GPUs; one GID table a bond."""
    machine = paired(a100_node())
    devices, nics, paths = [], [], [root_path("0000:05:00.0")]
    for number in range(4):
        name, bond, address = f"mlx5_bond_{number}", f"bond{number}", f"198.51.{100 + number}.11"
        bus = hca_address(2 * number)
        devices.append(
            rdma_device(
                number,
                roce_port(name, interface=bond, address=address),
                name=name,
                board_id="MT_0000000359",
                firmware="22.39.1002",
                numa_node=number // 2,
                pci_bus_id=bus,
                interfaces=(bond,),
            )
        )
        members = (f"ens{number}f0np0", f"ens{number}f1np1")
        nics += [bonded(member, bond, bus[:-1] + str(function)) for function, member in enumerate(members)]
        nics.append(interface(bond, f"{address}/24", kind="bond", speed_mbps=200_000, mtu=9000, members=members))
        paths += [switch_path(gpu_address(2 * number + half), 2 * number, 4 + 4 * half) for half in (0, 1)]
        paths.append(switch_path(bus, 2 * number, 0))
    machine = wired(with_rdma(machine, *devices), MANAGEMENT, *nics)
    return with_network(
        machine, pci_paths=pci_paths(*(msgspec.structs.replace(each, numa_node=half(each.bus_id)) for each in paths))
    )


def half(bus_id: str) -> int:
    """The socket of a PCI address of h100_node: GPU 0 to 3 are on the first."""
    return int(int(bus_id[5:7], 16) >= 0x55)


def bonded(name: str, bond: str, bus: str) -> Interface:
    """One port of a bond; it has no address of its own."""
    return interface(name, master=bond, mtu=9000, driver="mlx5_core", pci_bus_id=bus)


def roce_without_v2() -> Snapshot:
    """One RoCE card whose GID table holds v1 entries only, on every port."""
    gids = roce_gids("ens1np0", "198.51.100.11", types=("IB/RoCE v1",))
    machine = with_rdma(
        a100_pcie_node(),
        rdma_device(
            0,
            roce_port(interface="ens1np0", address="198.51.100.11", gids=gids),
            numa_node=1,
            interfaces=("ens1np0",),
        ),
    )
    machine = wired(
        machine,
        MANAGEMENT,
        interface("ens1np0", "198.51.100.11/24", speed_mbps=200_000, mtu=9000, driver="mlx5_core"),
    )
    return with_library(with_more_paths(machine, hca_address(0)))


def dual_port_merged() -> Snapshot:
    """Two functions of one dual-port card, both ACTIVE: NCCL makes one device of them."""
    machine = paired(a100_pcie_node(2))
    buses = ("0000:18:00.0", "0000:18:00.1")
    devices, nics = [], []
    for number, bus in enumerate(buses):
        nic, address = f"ens1f{number}np{number}", f"198.51.{100 + number}.11"
        devices.append(
            rdma_device(
                number,
                roce_port(f"mlx5_{number}", interface=nic, address=address, rate_gbps=100.0),
                numa_node=0,
                pci_bus_id=bus,
                interfaces=(nic,),
            )
        )
        nics.append(interface(nic, f"{address}/24", mtu=9000, driver="mlx5_core", pci_bus_id=bus))
    machine = wired(with_rdma(machine, *devices), MANAGEMENT, *nics)
    paths = [switch_path(gpu_address(index), 0, 4 + 4 * index) for index in range(2)]
    paths += [switch_path(bus, 0, 0) for bus in buses]
    machine = with_network(machine, gpu_direct=GpuDirect(nvidia_peermem="580.95.05", open_kernel_module=True))
    return with_library(with_network(machine, pci_paths=pci_paths(*paths)))


# ---------------------------------------------------------------- clouds and containers


def efa(plugin: str = "") -> Snapshot:
    """An AWS p4d: eight A100, four EFA devices, each with an ENI that has an address."""
    machine = paired(a100_node())
    numbers = (16, 32, 144, 160)
    devices, nics, paths = [], [], []
    for place, number in enumerate(numbers):
        name, bus = f"rdmap{number}s27", hca_address(2 * place)
        gids = (Gid(0, f"fe80:0000:0000:0000:0cff:faff:fe00:{0x1100 + place:04x}"),)
        link = port(name, link_layer="Unspecified", rate_gbps=100.0, lid=0, subnet_manager_lid=0, gids=gids)
        devices.append(
            rdma_device(
                place,
                link,
                name=name,
                driver="efa",
                board_id=absent(f"{RDMA}/{name}/board_id", "no such file"),
                firmware="0.0.0.0",
                numa_node=place // 2,
                pci_bus_id=bus,
            )
        )
        nics.append(
            interface(
                f"ens{32 + 33 * place}",
                f"192.0.2.{11 + place}/24",
                speed_mbps=None,
                mtu=9001,
                driver="ena",
                pci_bus_id=f"0000:{number:02x}:1b.0",
            )
        )
        paths += [switch_path(gpu_address(2 * place + near), 2 * place, 4 + 4 * near) for near in (0, 1)]
        paths.append(switch_path(bus, 2 * place, 0))
    machine = wired(with_rdma(machine, *devices), *nics)
    machine = but(machine, "host.virtualization", "amazon")
    return with_network(
        machine,
        pci_paths=pci_paths(*(msgspec.structs.replace(each, numa_node=half(each.bus_id)) for each in paths)),
        net_plugins=(plugin,) if plugin else (),
    )


def efa_with_plugin() -> Snapshot:
    """The same with aws-ofi-nccl installed."""
    return efa("/opt/amazon/ofi-nccl/lib/libnccl-net-ofi.so")


def tcp_100g() -> Snapshot:
    """Four PCIe cards, one 100G port, a docker0 that nothing uses."""
    return wired(a100_pcie_node(), interface("ens1", "192.0.2.11/24", driver="ice"), idle("docker0"))


def idle(name: str) -> Interface:
    """A bridge without a running member: up, with its address, not running."""
    kind = "docker" if name.startswith("docker") else "bridge"
    return interface(name, "172.17.0.1/16", kind=kind, is_running=False, operstate="down")


def many_bridges() -> Snapshot:
    """A Kubernetes and docker host without RDMA, in a job of two nodes; its NIC was found after a bridge."""
    veths = [
        interface(f"veth{number:04x}", f"fe80::{number + 1}/64", kind="veth", master="cni0") for number in range(3)
    ]
    return wired(
        with_environment(rtx_4090_node(), SLURM_NNODES="2", SLURM_JOB_ID="4711"),
        interface("br-3f9d12ab77c0", "172.18.0.1/16", kind="bridge"),
        interface("docker0", "172.17.0.1/16", kind="docker"),
        interface("virbr0", "192.168.122.1/24", kind="bridge"),
        interface("enp6s0", "192.0.2.11/24", "fe80::9/64", speed_mbps=10_000, driver="ixgbe"),
        interface("cni0", "10.244.1.1/24", kind="bridge"),
        interface("flannel.1", "10.244.1.0/32", kind="tunnel", mtu=1450),
        *veths,
    )


def plain_vm() -> Snapshot:
    """Two T4 in a cloud VM; there is no /sys/class/infiniband."""
    return but(t4_node(), "host.virtualization", "kvm")


def container_without_infiniband() -> Snapshot:
    """Docker with the GPUs and without --device /dev/infiniband: /sys still shows the host's HCAs."""
    machine = with_network(h100_node(), rdma_nodes=rdma_nodes(0))
    machine = wired(machine, interface("eth0", "172.17.0.2/16", kind="veth", speed_mbps=10_000, driver=""))
    host: dict[str, Any] = {
        "container": read("/.dockerenv", "docker"),
        "private_pid_namespace": read("/proc/self/ns/pid", True),
        "hostname_addresses": read("getaddrinfo node-1", ("172.17.0.2",)),
        "shared_memory": read("statvfs /dev/shm", Space(64 * GIB, 64 * GIB, filesystem="tmpfs")),
    }
    return but(machine, "host", msgspec.structs.replace(machine.host, **host))


NETWORK_MACHINES: Mapping[str, Callable[[], Snapshot]] = {
    "network-dgx-h100": dgx_h100,
    "network-a100-hdr": a100_hdr,
    "network-port-polling": port_polling,
    "network-only-port-down": only_port_down,
    "network-subnet-manager-gone": subnet_manager_gone,
    "network-rail-missing": rail_missing,
    "network-ipoib-only": ipoib_only,
    "network-roce-bonded": roce_bonded,
    "network-roce-without-v2": roce_without_v2,
    "network-dual-port-merged": dual_port_merged,
    "network-efa": efa,
    "network-efa-with-plugin": efa_with_plugin,
    "network-tcp-100g": tcp_100g,
    "network-many-bridges": many_bridges,
    "network-laptop": laptop,
    "network-vm": plain_vm,
    "network-container-without-infiniband": container_without_infiniband,
}
