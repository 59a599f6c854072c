"""Cases of the checks in network/ about RDMA devices, their ports and GPUDirect RDMA."""

from typing import Any

import msgspec

from gpudoctor.snapshot import (
    CudaAnswer,
    DeviceNode,
    Gid,
    GpuDirect,
    PciPath,
    RdmaDevice,
    Reading,
    Snapshot,
    TopologyLevel,
    read,
)
from gpudoctor.testing.cases import error, info, silent, skipped, warning
from gpudoctor.testing.machines import MIB, but, h100_node, rtx_4090_node, t4_node, unread
from gpudoctor.testing.networks import (
    RDMA,
    changed_device,
    changed_interface,
    changed_port,
    gpu_address,
    hca_address,
    interface,
    port,
    rdma_device,
    rdma_nodes,
    roce_gids,
    roce_port,
    with_interfaces,
    with_network,
    with_rdma,
)
from tests.checks.host import limits, with_environment, with_host

H100 = h100_node()
PORTS = "network.rdma_devices"
NO_RDMA = with_rdma(H100)


def with_ports(count: int, machine: Snapshot = H100, **facts: Any) -> Snapshot:
    """The machine with its first RDMA devices' ports changed."""
    for index in range(count):
        machine = changed_port(machine, f"mlx5_{index}", **facts)
    return machine


def on_both(machine: Snapshot, **fields: Any) -> Snapshot:
    """What libcuda says of every GPU, changed."""
    answer = machine.cuda.visible.value
    devices = tuple(msgspec.structs.replace(device, **fields) for device in answer.devices)
    changed: Reading[CudaAnswer] = read("libcuda", msgspec.structs.replace(answer, devices=devices))
    return but(but(machine, "cuda.visible", changed), "cuda.all", changed)


# ---------------------------------------------------------------- ports


def roce_down(*, is_up: bool) -> Snapshot:
    """One RoCE port without carrier: mlx5 calls it Disabled, as it does one that is switched off."""
    one = roce_port(interface="eth1", address="10.0.0.11", state="DOWN", physical_state="Disabled")
    machine = with_rdma(H100, rdma_device(0, one, interfaces=("eth1",)))
    nic = interface("eth1", is_up=is_up, is_running=False)
    return with_interfaces(machine, interface("eth0", "192.0.2.11/24"), nic)


ALL_DOWN = with_ports(8, state="DOWN", physical_state="Polling", lid=65535, subnet_manager_lid=0)
WAITING = with_ports(1, state="INIT", lid=0, subnet_manager_lid=0)
SLOW = changed_port(H100, "mlx5_3", rate_gbps=200.0)
SEVEN = changed_port(H100, "mlx5_5", state="DOWN", physical_state="Polling")
ONE_GONE = with_rdma(H100, *H100.network.rdma_devices.value[:7])
TWO_PORTS = with_rdma(
    h100_node(4),
    *(
        rdma_device(
            2 * card + function,
            port(f"mlx5_{2 * card + function}", state="DOWN" if function else "ACTIVE"),
            pci_bus_id=hca_address(card)[:-1] + str(function),
        )
        for card in range(4)
        for function in range(2)
    ),
)

PORT_CASES = {
    "rdma-port-down": [
        warning(ALL_DOWN, "mlx5_0, mlx5_1, mlx5_2, mlx5_3 and 4 more are DOWN (Polling)", runs="ibstat mlx5_0"),
        # a RoCE port without carrier, whose interface is up
        warning(roce_down(is_up=True), "mlx5_0 is DOWN (Disabled)"),
        silent(roce_down(is_up=False)),
        skipped(but(H100, PORTS, unread(RDMA))),
        skipped(with_rdma(t4_node(), rdma_device(0, port(state="DOWN", physical_state=unread())))),
        skipped(with_network(roce_down(is_up=True), interfaces=unread("getifaddrs"))),
    ],
    "rdma-port-without-subnet-manager": [
        warning(WAITING, "mlx5_0 waits in INIT", "sm_lid 0", runs="ibstat mlx5_0"),
        silent(with_rdma(H100, rdma_device(0, roce_port(state="INIT", interface="eth1", address="10.0.0.1")))),
        warning(with_ports(1, WAITING, subnet_manager_lid=unread()), "mlx5_0 waits in INIT", "sm_lid was not read"),
        skipped(with_ports(1, WAITING, state=unread())),
    ],
    "rdma-rate-below-siblings": [
        warning(SLOW, "mlx5_3 runs at 200 Gb/s", "400 Gb/s", runs="sudo mlxlink -d 0000:48:00.0 -m -e"),
        silent(changed_device(SLOW, "mlx5_3", board_id=read(RDMA, "MT_0000000531"))),
        skipped(changed_port(H100, "mlx5_3", rate_gbps=unread())),
    ],
    "rdma-rail-missing": [
        warning(SEVEN, "7 of 8 rails", "mlx5_5 is DOWN (Polling)", runs="ibstat mlx5_5"),
        warning(ONE_GONE, "7 of 8 rails", "1 HCA of this model is not there"),
        silent(TWO_PORTS),
        skipped(changed_port(H100, "mlx5_5", state=unread())),
    ],
    "rdma-link-flapping": [
        error(
            changed_port(H100, "mlx5_2", counters={"link_downed": 40}, counting={"link_downed": 1}),
            "mlx5_2",
            "link_downed by 1 to 41",
            runs="export NCCL_IB_HCA='^=mlx5_2'",
        ),
        silent(changed_port(H100, "mlx5_2", counters={"link_downed": 40})),
        skipped(changed_port(H100, "mlx5_2", counting=unread())),
    ],
    "rdma-errors-counting": [
        warning(
            changed_port(H100, "mlx5_2", counters={"symbol_error": 9}, counting={"symbol_error": 3}),
            "mlx5_2",
            "symbol_error by 3",
        ),
        warning(changed_port(H100, "mlx5_2", counting={"out_of_sequence": 70}), "out_of_sequence by 70"),
        silent(changed_port(H100, "mlx5_2", counters={"symbol_error": 9}, counting={"link_downed": 1})),
        skipped(changed_port(H100, "mlx5_2", counting=unread())),
    ],
    "rdma-firmware-differs": [
        info(
            changed_device(H100, "mlx5_6", firmware=read(RDMA, "28.36.1010")),
            "mlx5_6 runs firmware 28.36.1010",
            "7 of the same model (MT_0000000838) run 28.39.1002",
        ),
        silent(changed_device(H100, "mlx5_6", firmware=read(RDMA, "1.2"), board_id=read(RDMA, "DEL0000000033"))),
        skipped(changed_device(H100, "mlx5_6", firmware=unread())),
    ],
}

# ---------------------------------------------------------------- opening them

CLOSED = with_network(H100, rdma_nodes=(DeviceNode("/dev/infiniband/uverbs0", False, False, 0o600, "root", "root"),))
WITH_FILES = with_rdma(H100, *(rdma_device(index, uverbs=f"uverbs{index}") for index in range(8)))
ONE_CLOSED = with_network(
    WITH_FILES,
    rdma_nodes=tuple(
        msgspec.structs.replace(node, writable=not node.path.endswith("uverbs3"), mode=0o644)
        for node in rdma_nodes(8).value
    ),
)
IN_CONTAINER = with_host(with_network(H100, rdma_nodes=rdma_nodes(0)), container="docker")
LOW = with_host(H100, is_root=False, limits=limits(memlock_soft_bytes=8 * MIB, memlock_hard_bytes=8 * MIB))

EFA_DEVICES = tuple(
    rdma_device(
        index,
        port(f"rdmap{index}", link_layer="Unspecified", rate_gbps=100.0, lid=0),
        name=f"rdmap{index}",
        driver="efa",
        board_id=unread(),
    )
    for index in range(8)
)
EFA = with_rdma(H100, *EFA_DEVICES)

OPEN_CASES = {
    "rdma-devices-unusable": [
        warning(
            IN_CONTAINER,
            "8 RDMA ports are ACTIVE",
            "container",
        ),
        warning(CLOSED, "uverbs0", "mode 0600"),
        warning(
            with_host(with_network(WITH_FILES, rdma_nodes=rdma_nodes(1)), container="docker"),
            "7 of 8 RDMA devices cannot be opened",
            "uverbs1, /dev/infiniband/uverbs2",
            "not in this container",
        ),
        warning(ONE_CLOSED, "1 of 8 RDMA devices", "/dev/infiniband/uverbs3 of mlx5_3 may not be opened by this user"),
        silent(WITH_FILES, with_network(H100, rdma_nodes=rdma_nodes(1))),
        warning(with_network(H100, rdma_nodes=rdma_nodes(0)), runs="sudo modprobe ib_uverbs"),
        silent(NO_RDMA),
        skipped(with_network(H100, rdma_nodes=unread("/dev/infiniband"))),
        skipped(but(with_network(H100, rdma_nodes=rdma_nodes(0)), "host.container", unread("/proc/1"))),
    ],
    "rdma-library-missing": [
        warning(
            with_network(H100, verbs_library=""),
            "8 RDMA ports are ACTIVE",
            "libibverbs.so.1",
            runs="sudo apt-get install -y libibverbs1 ibverbs-providers",
        ),
        silent(with_rdma(with_network(H100, verbs_library=""))),
        skipped(with_network(H100, verbs_library=unread("ld.so.cache"))),
    ],
    "rdma-memlock-low": [
        error(
            LOW,
            "8 MiB",
            "8 ACTIVE RDMA ports",
            runs="printf '* soft memlock unlimited\\n* hard memlock unlimited\\n'"
            " | sudo tee /etc/security/limits.d/90-memlock.conf",
        ),
        warning(
            with_host(LOW, limits=limits(memlock_soft_bytes=1024 * MIB, memlock_hard_bytes=None)),
            runs="ulimit -l unlimited",
        ),
        error(with_rdma(LOW, *EFA_DEVICES)),
        silent(with_environment(LOW, NCCL_IB_DISABLE="1")),
        skipped(but(LOW, "host.limits", unread("getrlimit"))),
    ],
    "efa-without-plugin": [
        warning(EFA, "8 EFA devices"),
        silent(with_network(EFA, net_plugins=("/opt/amazon/ofi-nccl/lib/libnccl-net.so",))),
        skipped(with_network(EFA, net_plugins=unread("ld.so.cache"))),
    ],
}

# ---------------------------------------------------------------- RoCE


def roce(gids: tuple[Gid, ...] | None = None, **fields: Any) -> Snapshot:
    """Eight RoCE NICs of 200 Gb/s with a network interface each."""
    names = [f"eth{index + 1}" for index in range(8)]
    devices: list[RdmaDevice] = []
    for index, name in enumerate(names):
        own = roce_gids(name, f"10.0.{index}.11") if gids is None else gids
        one = roce_port(f"mlx5_{index}", interface=name, address=f"10.0.{index}.11", gids=own)
        devices.append(rdma_device(index, one, interfaces=(name,)))
    management = interface("eth0", "192.0.2.11/24")
    nics = [interface(name, f"10.0.{index}.11/24", mtu=9000) for index, name in enumerate(names)]
    return with_network(with_interfaces(with_rdma(H100, *devices), management, *nics), **fields)


ROCE = roce()
LOCAL_ONLY = roce(roce_gids("eth1", "10.0.0.11")[:2])
IPV6_ONLY = roce(
    (*roce_gids("eth1", "10.0.0.11")[:2], Gid(3, "2001:0db8:0000:0000:0000:0000:0000:0011", "RoCE v2", "eth1"))
)
UNTYPED = roce(tuple(msgspec.structs.replace(gid, type="") for gid in roce_gids("eth1", "10.0.0.11")))
NEWEST = but(ROCE, "training.torch", msgspec.structs.replace(H100.training.torch.value, nccl_version=(2, 32, 3)))
INDEX_0 = with_environment(ROCE, NCCL_IB_GID_INDEX="0")

ROCE_CASES = {
    "roce-without-v2-gid": [
        warning(
            roce(roce_gids("eth1", "10.0.0.11", ("IB/RoCE v1",))),
            "mlx5_0 has no RoCE v2 GID (2 GIDs)",
            runs=("ip addr show eth1", "sudo cma_roce_mode -d mlx5_0 -p 1"),
            times=8,
        ),
        warning(with_environment(LOCAL_ONLY, NCCL_IB_HCA="=mlx5_1"), "mlx5_1 has no RoCE v2 GID of an IP address"),
        warning(
            with_environment(IPV6_ONLY, NCCL_IB_HCA="=mlx5_1"),
            "NCCL takes GID 0 of mlx5_1, link-local: its RoCE v2 GIDs of IPv6 addresses are not what it looks for",
            runs="export NCCL_IB_ADDR_FAMILY=AF_INET6",
        ),
        warning(
            with_environment(ROCE, NCCL_IB_HCA="=mlx5_1", NCCL_IB_ADDR_RANGE="10.77.0.0/16"),
            "GID 0 of mlx5_1, link-local: its RoCE v2 GIDs of IP addresses are not what NCCL_IB_ADDR_RANGE=10.77",
        ),
        silent(with_environment(IPV6_ONLY, NCCL_IB_ADDR_FAMILY="AF_INET6")),
        silent(with_environment(IPV6_ONLY, NCCL_IB_GID_INDEX="3")),
        silent(ROCE),
        skipped(UNTYPED),
    ],
    "roce-gid-index-wrong": [
        error(
            with_environment(ROCE, NCCL_IB_GID_INDEX="7", NCCL_IB_HCA="=mlx5_2"),
            "NCCL_IB_GID_INDEX=7: GID 7 of mlx5_2 is empty",
            runs="unset NCCL_IB_GID_INDEX",
        ),
        warning(
            but(INDEX_0, "training.torch", msgspec.structs.replace(H100.training.torch.value, nccl_version=(2, 19, 3))),
            "GID 0 of mlx5_0 is a RoCE v1 address",
            runs="export NCCL_IB_GID_INDEX=3",
            times=8,
        ),
        error(
            with_environment(changed_port(NEWEST, "mlx5_2", gid_entries=16), NCCL_IB_GID_INDEX="99"),
            "NCCL_IB_GID_INDEX=99: GID 99 of mlx5_2 is beyond its table",
            runs="unset NCCL_IB_GID_INDEX",
        ),
        silent(
            with_environment(
                changed_port(NEWEST, "mlx5_2", gid_entries=16), NCCL_IB_GID_INDEX="3", NCCL_IB_HCA="=mlx5_2"
            )
        ),
        silent(with_environment(ROCE, NCCL_IB_GID_INDEX="3")),
        silent(with_environment(H100, NCCL_IB_GID_INDEX="9")),  # not read for InfiniBand
        skipped(changed_port(INDEX_0, "mlx5_0", gids=unread())),
    ],
    "rdma-mtu-small": [
        info(
            changed_interface(ROCE, "eth4", mtu=1500),
            "eth4",
            "MTU of 1500",
            "4200",
        ),
        silent(changed_interface(ROCE, "eth0", mtu=1500)),
        skipped(with_network(ROCE, interfaces=unread("getifaddrs"))),
    ],
}

# ---------------------------------------------------------------- GPUDirect and topology

NO_MODULE = with_network(H100, gpu_direct=GpuDirect(open_kernel_module=False))
CLOSED_DRIVER = on_both(NO_MODULE, dma_buf=False)
FLAT = {
    address: PciPath(address, (), "pci0000:00", 0)
    for address in (*map(gpu_address, range(8)), *map(hca_address, range(8)))
}
FLAT_VM = with_network(H100, pci_paths=FLAT)
TOPOLOGY = "/opt/microsoft/ndv5-topo.xml"
FAR = with_network(
    with_rdma(rtx_4090_node(2), rdma_device(0, pci_bus_id="0000:06:00.0")),
    gpu_direct=H100.network.gpu_direct,
    verbs_library=H100.network.verbs_library,
)
FAR = on_both(FAR, gpu_direct_rdma=True)
LEVEL_LOC = with_environment(H100, NCCL_NET_GDR_LEVEL="LOC")
LEVELS = tuple(
    TopologyLevel(a, b, "multiple" if a // 2 == b // 2 else "system") for a in range(8) for b in range(a + 1, 8)
)

DIRECT_CASES = {
    "peermem-not-loaded": [
        warning(
            CLOSED_DRIVER,
            "no peer memory module is loaded",
            "the GPU driver does not offer DMA-BUF",
            runs="sudo modprobe nvidia-peermem",
        ),
        warning(with_environment(NO_MODULE, NCCL_DMABUF_ENABLE="0"), "NCCL_DMABUF_ENABLE=0"),
        silent(NO_MODULE, with_environment(H100, NCCL_DMABUF_ENABLE="0")),  # DMA-BUF serves
        skipped(with_network(CLOSED_DRIVER, gpu_direct=unread("/sys"))),
    ],
    "gpu-direct-rdma-off": [
        warning(LEVEL_LOC, "GPUs 0-7", "NCCL_NET_GDR_LEVEL=LOC allows LOC", runs="unset NCCL_NET_GDR_LEVEL"),
        info(FAR, "GPUs 0-1", "PHB away", "NCCL's default allows PXB", runs="export NCCL_NET_GDR_LEVEL=PHB"),
        # NCCL goes by the provider's file then, whatever the tree shows.
        skipped(with_network(with_environment(FAR, NCCL_TOPO_FILE=TOPOLOGY), nccl_paths=read("x", {TOPOLOGY: True}))),
        info(with_network(with_environment(FAR, NCCL_TOPO_FILE=TOPOLOGY), nccl_paths=read("x", {TOPOLOGY: False}))),
        silent(on_both(FAR, gpu_direct_rdma=False)),  # GeForce: nothing to be done
        skipped(on_both(H100, gpu_direct_rdma=None), with_network(FAR, rdma_devices=unread(RDMA))),
    ],
    "topology-flattened": [
        warning(FLAT_VM, "8 GPUs and 8 RDMA devices"),
        info(but(H100, "nvidia.topology", LEVELS), "GPU 0 and GPU 1 PXB apart", "NODE", "3 more pairs"),
        silent(with_environment(FLAT_VM, NCCL_TOPO_FILE="/opt/microsoft/ndv5-topo.xml")),
        skipped(with_network(H100, pci_paths=unread("/sys/bus/pci/devices")), "nvidia.topology"),
    ],
}

CASES = {**PORT_CASES, **OPEN_CASES, **ROCE_CASES, **DIRECT_CASES}
