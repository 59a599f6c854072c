"""Which link limits a run, on the machines of gpudoctor/testing/machines.py and tests/machines/network_machines.py."""

import msgspec
import pytest

from gpudoctor.knowledge.bandwidth.links import (
    Link,
    between_nodes,
    gpu_direct_used,
    inside_node,
    limiting,
    network_of,
    reduces_in_switch,
    used_ports,
)
from gpudoctor.knowledge.nccl.log import LogFacts, read_log
from gpudoctor.snapshot import NvLink, Snapshot
from gpudoctor.testing.machines import but, but_gpu, h100_node, rtx_4090_node, t4_node, unread
from gpudoctor.testing.networks import gpu_address, interface, with_interfaces, with_network
from tests.machines.network_machines import (
    a100_hdr,
    a100_node,
    a100_pcie_node,
    dgx_h100,
    dual_port_merged,
    efa_with_plugin,
    port_polling,
    rail_missing,
    roce_bonded,
    tcp_100g,
)
from tests.nccl_runs import log_of


def addresses(machine: Snapshot, count: int = 0) -> list[str]:
    return [gpu.pci_bus_id.value for gpu in machine.nvidia.gpus.value][: count or None]


def log(*texts: str) -> LogFacts:
    return read_log(log_of(*texts))


SHM = log("Channel 00 : 0[0] -> 1[1] via SHM/direct/direct")


def bridged(joined: tuple[tuple[int, int], ...], count: int) -> Snapshot:
    """PCIe cards with NVLink bridges between these pairs."""
    machine = a100_pcie_node(count)
    for one, other in joined:
        for here, there in ((one, other), (other, one)):
            links = (NvLink(0, True, "gpu", gpu_address(there)),)
            machine = but_gpu(machine, here, nvlinks=links)
    return machine


INSIDE = [
    (h100_node(), 0, "NVLink 4 through NVSwitch, 8 GPUs", 360),
    (h100_node(), 2, "NVLink 4 through NVSwitch, 2 GPUs", None),
    (a100_node(), 0, "NVLink 3 through NVSwitch, 8 GPUs", 230),
    (a100_pcie_node(), 0, "PCIe gen 4 x16, 4 GPUs", 10),
    (bridged(((0, 1),), 2), 0, "NVLink 3, 2 GPUs", 193),
    (bridged(((0, 1), (2, 3)), 4), 0, "PCIe and NVLink 3, 4 GPUs", None),
    (t4_node(), 0, "PCIe gen 3 x16, 2 GPUs", None),
    (rtx_4090_node(), 0, "PCIe gen 4 x16, 4 GPUs", None),
    (but_gpu(a100_pcie_node(), 2, pcie_width=4), 0, "PCIe gen 4 x4, 4 GPUs", 10),
]


@pytest.mark.parametrize(("machine", "count", "words", "reached"), INSIDE)
def test_inside_a_node(machine: Snapshot, count: int, words: str, reached: float | None) -> None:
    link = inside_node(machine, addresses(machine, count), "ring", LogFacts())
    assert link.words == words
    assert (link.expected and link.expected.reached) == reached
    assert bool(link.reason) == (reached is None)


def test_partly_bridged_says_so() -> None:
    machine = bridged(((0, 1), (2, 3)), 4)
    assert "NVLink joins 2 of 6 pairs" in inside_node(machine, addresses(machine), "ring", LogFacts()).reason


def test_host_memory_is_not_graded() -> None:
    machine = rtx_4090_node()
    link = inside_node(machine, addresses(machine), "ring", SHM)
    assert link.words == "host memory (SHM), 4 GPUs" and link.expected is None and link.reason


def test_gpus_that_nobody_read() -> None:
    machine = but(h100_node(), "nvidia.gpus", unread())
    link = inside_node(machine, addresses(h100_node()), "ring", LogFacts())
    assert link.expected is None and "permission denied" in link.reason


def test_gpus_of_another_machine() -> None:
    link = inside_node(t4_node(), addresses(h100_node()), "ring", LogFacts())
    assert link.expected is None and "not all GPUs of the run" in link.reason


IB = log("Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA")
SOCKET = log("Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0")
EFA = log("Channel 00/0 : 0[0] -> 8[0] [send] via NET/AWS Libfabric/0/GDRDMA")
NO_GDR = log("Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0")

BETWEEN = [
    (h100_node(), IB, "8 x 400 Gb/s InfiniBand a node", 300),
    (h100_node(), LogFacts(), "8 x 400 Gb/s InfiniBand a node", 300),
    (a100_hdr(), IB, "8 x 200 Gb/s InfiniBand a node", 192),
    (a100_hdr(), NO_GDR, "8 x 200 Gb/s InfiniBand a node without GPUDirect RDMA", 72),
    (dgx_h100(), IB, "8 x 400 Gb/s InfiniBand a node", 300),  # the storage ports carry nothing
    (roce_bonded(), IB, "4 x 200 Gb/s RoCE a node", 86),
    (dual_port_merged(), IB, "2 x 100 Gb/s RoCE a node", 0.86 * 25),
    (port_polling(), IB, "7 x 400 Gb/s InfiniBand a node", 0.86 * 350),
    (rail_missing(), IB, "7 x 400 Gb/s InfiniBand a node", 0.86 * 350),
    (efa_with_plugin(), EFA, "4 x 100 Gb/s EFA a node", 48),
    (tcp_100g(), SOCKET, "TCP over ens1, 100 Gb/s", 4),
    (tcp_100g(), LogFacts(), "TCP over ens1, 100 Gb/s", 4),
    (rtx_4090_node(), SOCKET, "TCP over enp6s0, 10 Gb/s", 1.25 * 2 / 3),
    (t4_node(), SOCKET, "TCP over ens5", None),  # a virtual NIC does not say its speed
]


@pytest.mark.parametrize(("machine", "facts", "words", "reached"), BETWEEN)
def test_between_nodes(machine: Snapshot, facts: LogFacts, words: str, reached: float | None) -> None:
    link = between_nodes(machine, addresses(machine), facts)
    assert (link.words, link.is_network) == (words, True)
    assert (link.expected and link.expected.reached) == (reached and pytest.approx(reached))
    assert bool(link.reason) == (reached is None)


def on_link(machine: Snapshot, speed: str, width: int | None) -> Snapshot:
    """The machine with this PCIe link for every RDMA device."""
    devices = tuple(
        msgspec.structs.replace(device, pcie_speed=speed, pcie_width=width)
        for device in machine.network.rdma_devices.value
    )
    return but(machine, "network.rdma_devices", devices)


DOUBTS = [
    (h100_node(), ""),
    (on_link(h100_node(), "16.0 GT/s PCIe", 16), "the PCIe link of mlx5_0 is gen 4 x16 and carries 252 of 400 Gb/s"),
    (on_link(h100_node(), "", 16), "the PCIe link of mlx5_0 was not read, so nothing says that it carries 400 Gb/s"),
    (on_link(h100_node(), "32.0 GT/s PCIe", None), "was not read"),
    (on_link(h100_node(), "nonsense", 16), "was not read"),
    # Two ports of one card: 2 x 100 Gb/s, for which gen 3 x16 (126 Gb/s) is too little and gen 4 x16 enough.
    (on_link(dual_port_merged(), "16.0 GT/s PCIe", 16), ""),
    (
        on_link(dual_port_merged(), "8.0 GT/s PCIe", 16),
        "mlx5_0 and mlx5_1 share one card and its PCIe link, which is gen 3 x16 and carries 126 of 200 Gb/s",
    ),
    (
        on_link(dual_port_merged(), "", None),
        "mlx5_0 and mlx5_1 share one card and its PCIe link, which was not read, so nothing says that it carries 200",
    ),
]


@pytest.mark.parametrize(("machine", "doubt"), DOUBTS)
def test_what_a_cards_pcie_link_is_not_known_to_carry(machine: Snapshot, doubt: str) -> None:
    link = between_nodes(machine, addresses(machine), IB)
    assert link.expected is not None
    assert doubt in link.doubt and bool(link.doubt) == bool(doubt)


def test_one_gpu_a_node_has_the_nic_beside_it() -> None:
    ports = used_ports(h100_node(), addresses(h100_node(), 1))
    assert [device.name for device, _ in ports] == ["mlx5_0"]


def test_tcp_over_several_interfaces_is_not_graded() -> None:
    machine = with_interfaces(
        a100_pcie_node(), interface("eth0", "192.0.2.11/24"), interface("eth1", "198.51.100.1/24")
    )
    link = between_nodes(machine, addresses(machine), SOCKET)
    assert link.expected is None and link.words == "TCP over eth0, eth1"


def test_the_interface_that_nccl_logs_is_the_one() -> None:
    machine = with_interfaces(
        a100_pcie_node(), interface("eth0", "192.0.2.11/24"), interface("eth1", "198.51.100.1/24")
    )
    facts = log("Using network Socket", "NET/Socket : Using [0]eth1:198.51.100.1<0>")
    assert between_nodes(machine, addresses(machine), facts).words == "TCP over eth1, 100 Gb/s"


def test_an_unknown_plugin_is_not_graded() -> None:
    link = between_nodes(h100_node(), addresses(h100_node()), log("Using network FasTrak"))
    assert link.expected is None and "FasTrak" in link.reason


def test_a_network_that_nobody_read() -> None:
    machine = with_network(h100_node(), rdma_devices=unread("/sys/class/infiniband"))
    link = between_nodes(machine, addresses(machine), IB)
    assert link.expected is None and "permission denied" in link.reason


def test_network_and_gpu_direct_of_a_log() -> None:
    assert [network_of(each) for each in (IB, SOCKET, EFA, LogFacts())] == ["IB", "Socket", "AWS Libfabric", ""]
    assert [gpu_direct_used(each) for each in (IB, NO_GDR, SOCKET)] == [True, False, None]


def test_nvlink_sharp() -> None:
    assert reduces_in_switch(h100_node(), LogFacts())
    assert not reduces_in_switch(a100_node(), LogFacts())
    assert not reduces_in_switch(h100_node(), log("NVLS multicast support is not available on dev 0"))
    lost = "24 coll channels, 24 collnet channels, 0 nvls channels, 32 p2p channels, 32 p2p channels per peer"
    assert not reduces_in_switch(h100_node(), log(lost))
    assert not reduces_in_switch(but(h100_node(), "nvidia.gpus", ()), LogFacts())


def test_the_slowest_part_limits() -> None:
    inside = inside_node(h100_node(), addresses(h100_node()), "ring", LogFacts())
    fast = between_nodes(h100_node(), addresses(h100_node()), IB)
    slow = between_nodes(a100_hdr(), addresses(a100_hdr()), IB)
    assert limiting([inside, fast, slow]) is slow
    assert limiting([inside]) is inside


def test_an_unknown_part_makes_the_whole_unknown_but_beside_a_slow_network() -> None:
    unknown = Link("host memory", reason="nothing is published")
    fast = between_nodes(h100_node(), addresses(h100_node()), IB)
    tcp = between_nodes(rtx_4090_node(), addresses(rtx_4090_node()), SOCKET)
    assert limiting([fast, unknown]) is unknown
    assert limiting([unknown, tcp]) is tcp
    assert limiting([tcp, Link("?", reason="unread", is_network=True)]).reason == "unread"
