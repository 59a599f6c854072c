"""Machines as they come out of the box: no check of the host or of other makers' accelerators may warn of them."""

from typing import Any

import pytest

from gpudoctor.diagnose import ask
from gpudoctor.plugins import find_checks
from gpudoctor.snapshot import (
    AcsBridge,
    Cgroup,
    DeviceNode,
    GpuProcess,
    KernelLog,
    Limits,
    LinkLimit,
    PciDevice,
    Snapshot,
    Space,
    UsedPath,
    XidEvent,
    absent,
    missing,
    read,
)
from gpudoctor.testing.machines import GIB, MIB, but, but_gpu, h100_node, node, rtx_4090_node, t4_node
from gpudoctor.testing.networks import interface, rdma_device, roce_port, with_interfaces, with_network, with_rdma
from tests.checks.accelerators import GOOGLE_NETWORK_CARD, INTEL_GRAPHICS, INTEL_NPU, RYZEN_GRAPHICS, VIRTUAL_VGA
from tests.checks.host import with_environment, with_host, without_gpu

LOGIN = Limits(8 * MIB, 8 * MIB, 1024, 1048576, 61000)
"""What a login shell of Ubuntu 24.04 has."""
DENIED = missing("/dev/kmsg", "permission denied", "denied")
HOME = UsedPath(
    "XDG_CACHE_HOME", "/home/mara/.cache", read("statvfs", Space(460 * GIB, 60 * GIB, 10**7, 9 * 10**6, "ext4"))
)
ROOT = UsedPath(
    "working folder", "/", read("statvfs", Space(460 * GIB, 60 * GIB, 10**7, 9 * 10**6, "ext4", writable=False))
)


BRIDGE: dict[str, Any] = {"is_running": False, "operstate": "down"}


def desktop_network(machine: Snapshot) -> Snapshot:
    """Wireless, an empty socket for a cable, docker and libvirt installed, nothing of theirs running."""
    return with_interfaces(
        machine,
        interface("enp4s0", speed_mbps=None, driver="r8169", **BRIDGE),
        interface("wlp3s0", "192.168.1.23/24", "fe80::23/64", kind="wireless", speed_mbps=None, driver="iwlwifi"),
        interface("virbr0", "192.168.122.1/24", kind="bridge", **BRIDGE),
        interface("docker0", "172.17.0.1/16", kind="docker", **BRIDGE),
    )


def roce_cluster(machine: Snapshot) -> Snapshot:
    """A RoCE rail for each GPU with large packets, beside a slower card of the same maker for all else."""
    nics = [interface("eth0", "192.0.2.11/24", driver="mlx5_core")]
    devices = [
        rdma_device(
            8,
            roce_port("mlx5_8", interface="eth0", address="192.0.2.11", rate_gbps=100.0),
            board_id="MT_0000000547",
            pci_bus_id="0000:05:00.0",
            interfaces=("eth0",),
        )
    ]
    for n in range(8):
        address = f"10.224.{n}.11"
        nics.append(interface(f"rdma{n}", f"{address}/12", speed_mbps=400_000, mtu=4220, driver="mlx5_core"))
        link = roce_port(f"mlx5_{n}", interface=f"rdma{n}", address=address, rate_gbps=400.0)
        devices.append(rdma_device(n, link, interfaces=(f"rdma{n}",)))
    return with_rdma(with_interfaces(machine, *nics), *devices)


def container_network(machine: Snapshot) -> Snapshot:
    """One end of a veth pair, and no device of the host's fabric."""
    machine = with_interfaces(with_rdma(machine), interface("eth0", "172.17.0.2/16", kind="veth", speed_mbps=10_000))
    return with_network(machine, verbs_library="")


def ubuntu_desktop(machine: Snapshot) -> Snapshot:
    """A user's desktop or laptop, with a browser open."""
    machine = desktop_network(machine)
    return but(
        with_host(
            machine,
            is_root=False,
            limits=LOGIN,
            hostname_addresses=("127.0.1.1",),
            cpus=16,
            cpus_allowed=tuple(range(16)),
            cpu_governors={"powersave": 16},
            memory_total_bytes=16 * GIB,
            memory_available_bytes=5 * GIB,
            swap_used_bytes=2 * GIB,
            shared_memory=Space(8 * GIB, int(7.5 * GIB)),
            cgroup=Cgroup(2, pids_limit=18000, pids_used=700),
            paths=(HOME, ROOT),
            kernel_command_line="BOOT_IMAGE=/vmlinuz ro quiet splash",
            iommu_group_types={"DMA-FQ": 20, "identity": 1},
            acs_bridges=(AcsBridge("0000:00:01.0", True), AcsBridge("0000:00:1c.0", True)),
            clock_synchronised=True,
        ),
        "host.kernel_log",
        DENIED,
    )


def two_geforce_desktop() -> Snapshot:
    """Two GeForce cards have no peer access, and share the lanes of the CPU."""
    message = "126.016 Gb/s available PCIe bandwidth, limited by 16.0 GT/s PCIe x8 link at 0000:00:01.0 "
    message += "(capable of 252.048 Gb/s with 16.0 GT/s PCIe x16 link)"
    machine = ubuntu_desktop(rtx_4090_node(2))
    peers = tuple(
        peer.__class__(peer.from_gpu, peer.to_gpu, "chipset-not-supported", "not-supported")
        for peer in machine.nvidia.peers.value
    )
    limits = (LinkLimit("0000:1b:00.0", message), LinkLimit("0000:2b:00.0", message))
    return with_host(but(machine, "nvidia.peers", peers), kernel_log=KernelLog((), limits))


def ryzen_laptop() -> Snapshot:
    machine = ubuntu_desktop(without_gpu())
    return but(machine, "accelerators.pci", (RYZEN_GRAPHICS,))


def intel_laptop() -> Snapshot:
    machine = ubuntu_desktop(without_gpu())
    return but(machine, "accelerators.pci", (INTEL_GRAPHICS, INTEL_NPU))


def wsl2() -> Snapshot:
    """The GPU is reached through /dev/dxg, and nothing tells the kernel that its clock is kept."""
    machine = with_host(
        ubuntu_desktop(node((rtx_4090_node(1).nvidia.gpus.value[0],))),
        virtualization="wsl2",
        kernel_release="5.15.167.4-microsoft-standard-WSL2",
        clock_synchronised=False,
        iommu_group_types={},
    )
    dxg = DeviceNode("/dev/dxg", True, True, 0o666, "root", "root")
    graphics = PciDevice("0000:00:00.0", "0x1414", "0x008e", "0x030200", "dxgkrnl")
    machine = but(machine, "accelerators.device_nodes", (dxg,))
    machine = but(machine, "accelerators.pci", (graphics,))
    return but(machine, "host.cpu_governors", absent("/sys", "the kernel scales no CPU frequency"))


def cloud_vm() -> Snapshot:
    """A T4 machine of a cloud: four CPUs, everything owned by the hypervisor."""
    machine = with_host(
        t4_node(1),
        virtualization="kvm",
        limits=LOGIN,
        cpus=4,
        cpus_allowed=(0, 1, 2, 3),
        memory_total_bytes=15 * GIB,
        memory_available_bytes=13 * GIB,
        shared_memory=Space(8 * GIB, 8 * GIB),
        swap_total_bytes=0,
        hostname_addresses=("10.128.0.2",),
    )
    nic = interface("ens4", "10.128.0.2/32", speed_mbps=None, mtu=1460, driver="gve")
    machine = with_interfaces(machine, nic, interface("docker0", "172.17.0.1/16", kind="docker", **BRIDGE))
    machine = but_gpu(machine, 0, cpu_affinity=(0, 1, 2, 3))
    return but(machine, "accelerators.pci", (*machine.accelerators.pci.value, GOOGLE_NETWORK_CARD))


def small_vm() -> Snapshot:
    """One CPU, 1 GiB, and a virtual screen."""
    machine = with_host(
        without_gpu(),
        virtualization="kvm",
        limits=LOGIN,
        cpus=1,
        cpus_allowed=(0,),
        memory_total_bytes=1 * GIB,
        memory_available_bytes=600 * MIB,
        swap_total_bytes=0,
        shared_memory=Space(512 * MIB, 512 * MIB),
        paths=(UsedPath("TMPDIR", "/tmp", read("statvfs /tmp", Space(10 * GIB, 7 * GIB, 640000, 500000, "ext4"))),),
        clock_synchronised=False,
    )
    return but(machine, "accelerators.pci", (VIRTUAL_VGA, GOOGLE_NETWORK_CARD))


def container_without_gpu() -> Snapshot:
    """`docker run python`, on a host whose log tells of somebody else's troubles."""
    return with_host(
        container_network(small_vm()),
        container="docker",
        private_pid_namespace=True,
        shared_memory=Space(64 * MIB, 64 * MIB),
        cgroup=Cgroup(2, memory_limit_bytes=2 * GIB, memory_used_bytes=100 * MIB, cpu_limit=1.0),
        hostname_addresses=("172.17.0.2",),
    )


def pod_with_one_gpu() -> Snapshot:
    """A Kubernetes pod with one H100 of eight, and a log of the whole host."""
    machine = with_host(
        container_network(h100_node(1)),
        container="kubernetes",
        private_pid_namespace=True,
        hostname_addresses=("172.17.0.2",),
        limits=Limits(64 * 1024, 64 * 1024, 1048576, 1048576, None),
        shared_memory=Space(16 * GIB, 16 * GIB),
        cgroup=Cgroup(2, 64 * GIB, 3 * GIB, 12.0, 4096, 80),
        kernel_log=KernelLog((XidEvent(48, "0000:ab:00.0", "pid=7", seconds_ago=60.0),)),
    )
    return but_gpu(machine, 0, processes=(GpuProcess(91234, "compute", 4 * GIB),))


def slurm_task() -> Snapshot:
    """One of eight ranks of a job on two nodes, bound to the CPUs of its GPU, which is the only one that CUDA shows."""
    machine = with_host(h100_node(), cpus_allowed=tuple(range(14)), limits=Limits(None, None, 131072, 131072, None))
    machine = but(machine, "cuda.visible", h100_node(1).cuda.visible)
    return with_environment(machine, SLURM_NNODES="2", SLURM_JOB_ID="7", CUDA_VISIBLE_DEVICES="0")


MACHINES = {
    "roce-cluster": roce_cluster(h100_node()),
    "4090 desktop": ubuntu_desktop(rtx_4090_node(1)),
    "two GeForce cards": two_geforce_desktop(),
    "Ryzen laptop": ryzen_laptop(),
    "Intel laptop": intel_laptop(),
    "WSL2": wsl2(),
    "T4 in a cloud": cloud_vm(),
    "small VM": small_vm(),
    "container without GPU": container_without_gpu(),
    "pod with one GPU": pod_with_one_gpu(),
    "SLURM task": slurm_task(),
}
CHECKS = [check for check in find_checks()[0] if check.group in ("host", "accelerators", "network", "nccl")]


@pytest.mark.parametrize("name", MACHINES)
def test_a_default_machine_prints_no_warning(name: str) -> None:
    problems = [(check.id, problem) for check in CHECKS for problem in ask(check, MACHINES[name]).problems]
    assert [(id, problem.summary) for id, problem in problems if problem.severity != "info"] == []


@pytest.mark.parametrize("name", MACHINES)
def test_and_no_more_than_a_few_remarks(name: str) -> None:
    """What is said of every machine is read on none."""
    remarks = [check.id for check in CHECKS if ask(check, MACHINES[name]).problems]
    assert len(remarks) <= 5, remarks


def test_a_management_card_is_not_asked_for_the_packets_of_the_fabric() -> None:
    found = [check.id for check in CHECKS if ask(check, MACHINES["roce-cluster"]).problems]
    assert "rdma-mtu-small" not in found and "mtu-differs-between-nics" not in found
