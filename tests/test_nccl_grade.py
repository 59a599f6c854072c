"""The verdict over a run, on the machines of gpudoctor/testing/machines.py and tests/machines/network_machines.py."""

import msgspec
import pytest
from hypothesis import given, strategies as st

from gpudoctor.fleet.messages import RankState
from gpudoctor.knowledge.wording import GIB, MIB
from gpudoctor.nccl.finding import Finding
from gpudoctor.nccl.grade import grade
from gpudoctor.nccl.rank_messages import Row
from gpudoctor.nccl.result import Grade, NodeRanks, RunResult
from gpudoctor.snapshot import GpuDirect, GpuProcess, NvLink, Snapshot, read
from gpudoctor.testing.machines import but, but_gpu, gpu, h100_node, node, rtx_4090_node, t4_node, unread
from gpudoctor.testing.networks import (
    gpu_address,
    interface,
    rdma_device,
    root_path,
    with_interfaces,
    with_network,
    with_rdma,
)
from tests.machines.hand_built import with_environment
from tests.machines.network_machines import a100_hdr, a100_node, a100_pcie_node, dgx_h100, efa_with_plugin
from tests.nccl_runs import log_of, paths_log, row, run_of


def graded(
    machines: dict[str, Snapshot], *rows: Row, inside: str = "P2P/CUMEM", between: str = "NET/IB/0/GDRDMA",
    more: tuple[str, ...] = (), count: int = 0,
) -> tuple[tuple[Grade, ...], tuple[Finding, ...]]:  # fmt: skip
    run = run_of(machines, *rows, count=count)
    return grade(run, machines, "nccl", paths_log(run, inside, between, *more))


def pair(machine: Snapshot) -> dict[str, Snapshot]:
    return {"n01": machine, "n02": machine}


def ids(findings: tuple[Finding, ...]) -> list[str]:
    return [finding.id for finding in findings]


B200 = tuple(gpu(index, name="NVIDIA B200", compute_capability=(10, 0)) for index in range(8))

VERDICTS = [
    # machine, collective, GB/s, verdict, expected
    (h100_node(), "all_gather", 365.0, "healthy", 360.0),
    (h100_node(), "all_gather", 325.0, "healthy", 360.0),
    (h100_node(), "all_gather", 323.0, "degraded", 360.0),
    (h100_node(), "reduce_scatter", 217.0, "degraded", 360.0),
    (h100_node(), "reduce_scatter", 215.0, "broken", 360.0),
    (h100_node(), "all_reduce", 470.0, "healthy", 460.0),
    (h100_node(), "all_reduce", 365.0, "degraded", 460.0),
    (h100_node(4), "all_reduce", 350.0, "healthy", 360.0),
    (a100_node(), "all_reduce", 232.0, "healthy", 230.0),
    (a100_node(), "all_gather", 20.0, "broken", 230.0),
    (node(B200), "all_gather", 690.0, "healthy", 682.0),
    (node(B200), "all_reduce", 840.0, "healthy", 838.0),
    (a100_pcie_node(), "all_gather", 22.0, "healthy", 10.0),
    (a100_pcie_node(), "all_gather", 5.0, "broken", 10.0),
]


@pytest.mark.parametrize(("machine", "collective", "measured", "verdict", "expected"), VERDICTS)
def test_one_node(machine: Snapshot, collective: str, measured: float, verdict: str, expected: float) -> None:
    (found,), findings = graded({"n01": machine}, row(collective, measured))
    assert (found.verdict, found.expected) == (verdict, expected)
    assert found.source
    assert ids(findings) == ([] if verdict == "healthy" else [f"bandwidth-{verdict}"])


def test_the_link_is_named() -> None:
    (found,), _ = graded({"n01": h100_node()}, row("all_gather", 365.0))
    assert found.link == "NVLink 4 through NVSwitch, 8 GPUs"
    assert "nccl-tests#212" in found.source


def test_a_degraded_run_names_numbers_source_and_what_next() -> None:
    _, (finding,) = graded({"n01": h100_node()}, row("all_gather", 300.0), row("all_reduce", 470.0))
    problem = finding.problem
    assert "300 GB/s" in problem.summary and "360 GB/s" in problem.summary and "nccl-tests#212" in problem.summary
    assert "1.2 times" in problem.meaning
    assert "gpudoctor topology" in problem.fix.commands


def test_the_largest_size_counts() -> None:
    (found,), _ = graded({"n01": h100_node()}, row("all_gather", 40.0, MIB), row("all_gather", 365.0, 8 * GIB))
    assert (found.measured, found.verdict) == (365.0, "healthy")


@pytest.mark.parametrize(("size", "verdict"), [(32 * MIB, "not graded"), (64 * MIB, "healthy"), (GIB, "degraded")])
def test_small_sizes(size: int, verdict: str) -> None:
    """An 8 x H200 reaches 72% of its plateau at 64 MiB; 265 GB/s is fine there and not at 1 GiB."""
    (found,), _ = graded({"n01": h100_node()}, row("all_gather", 265.0, size))
    assert found.verdict == verdict
    assert ("too small to say" in found.reason) == (verdict == "not graded")


@pytest.mark.parametrize(("received", "found"), [("NET/IB/0/GDRDMA", []), ("NET/IB/0", ["gpu-direct-rdma-off"])])
def test_old_gpus_without_nvlink_are_not_read_by_nics(received: str, found: list[str]) -> None:
    """NCCL's own default on a T4: sends go through host memory, and nothing is wrong. Not so what is received."""
    machines = pair(with_rdma(t4_node(1), rdma_device(0)))
    run = run_of(machines, row("all_gather", 5.0))
    lines = [
        log_of(
            f"Channel 00/0 : {rank}[0] -> {1 - rank}[0] [send] via NET/IB/0",
            f"Channel 00/0 : {1 - rank}[0] -> {rank}[0] [receive] via {received}",
        )
        for rank in (0, 1)
    ]
    grades, findings = grade(run, machines, "nccl", dict(enumerate(lines)))
    assert [finding for finding in ids(findings) if finding.startswith("gpu-direct")] == found
    assert (grades[0].verdict == "misconfigured") == bool(found)


@pytest.mark.parametrize("size", [64 * MIB, GIB])
def test_what_six_ranks_leave_of_a_size_is_graded_as_that_size(size: int) -> None:
    """Their parts are whole 16 bytes, so a little less than 64 MiB is moved; that is not "too small"."""
    (found,), _ = graded({"n01": h100_node(6)}, row("all_gather", 365.0, size - size % (6 * 16)))
    assert found.verdict == "healthy"
    assert ("64 MiB" in found.reason) == (size < GIB) and "at 1 GiB" not in found.reason[:20]


@pytest.mark.parametrize(
    ("machine", "collective", "reason"),
    [
        (t4_node(), "all_gather", "nothing is published for 2 GPUs of this model"),
        (h100_node(2), "all_gather", "nothing is published for 2 x H100"),
        (h100_node(), "all_to_all", "nothing is published for all_to_all"),
        (but(h100_node(), "nvidia.gpus", unread()), "all_gather", "were not read: test: permission denied"),
    ],
)
def test_unknown_is_not_graded(machine: Snapshot, collective: str, reason: str) -> None:
    run = run_of({"n01": h100_node() if not machine.nvidia.gpus.is_read else machine}, row(collective, 300.0))
    (found,), findings = grade(run, {"n01": machine}, "nccl", {})
    assert (found.verdict, found.expected) == ("not graded", None)
    assert reason in found.reason
    assert findings == ()


def test_without_a_snapshot_nothing_is_graded() -> None:
    run = run_of({"n01": h100_node()}, row("all_gather", 365.0))
    (found,), _ = grade(run, {}, "nccl", {})
    assert (found.verdict, found.reason) == ("not graded", "nothing was read of n01")


def test_gloo_is_never_graded() -> None:
    run = run_of({"n01": h100_node()}, row("all_reduce", 470.0))
    (found,), findings = grade(run, {"n01": h100_node()}, "gloo", {})
    assert (found.verdict, found.reason, findings) == ("not graded", "gloo over CPU, not NCCL", ())


def test_ranks_on_one_gpu_are_refused() -> None:
    run = run_of({"n01": h100_node()}, row("all_reduce", 470.0))
    first, second = run.members[:2]
    both = (first, msgspec.structs.replace(second, bus_id=first.bus_id.upper()), *run.members[2:])
    (found,), _ = grade(msgspec.structs.replace(run, members=both), {"n01": h100_node()}, "nccl", {})
    assert found.verdict == "not graded"
    assert "ranks 0, 1 share one GPU" in found.reason


def test_the_same_address_on_two_nodes_of_one_host_name_is_two_gpus() -> None:
    """Containers on different nodes may have the same host name; the agents know better."""
    machines = pair(h100_node())
    run = run_of(machines, row("all_gather", 340.0))
    everywhere = tuple(msgspec.structs.replace(member, host="localhost") for member in run.members)
    ends = tuple(
        NodeRanks(
            node=name,
            how="done",
            ranks=tuple(RankState(rank=8 * index + each, local_rank=each, pid=1) for each in range(8)),
        )
        for index, name in enumerate(machines)
    )
    same = msgspec.structs.replace(run, members=everywhere, ends=ends)
    (found,), _ = grade(same, machines, "nccl", paths_log(run, "P2P/CUMEM"))
    assert found.verdict == "healthy"


@pytest.mark.parametrize("backend", ["gloo", "nccl"])
def test_wrong_data_is_an_error_whatever_the_speed(backend: str) -> None:
    machines = pair(h100_node())
    run = run_of(machines, row("all_reduce", 350.0, wrong=17))
    _, findings = grade(run, machines, backend, paths_log(run, "P2P/CUMEM"))
    wrong = findings[0]
    assert (wrong.id, wrong.problem.severity, wrong.nodes, wrong.ranks) == (
        "collective-data-wrong",
        "error",
        ("n01",),
        (1,),
    )
    assert "17 wrong elements" in wrong.problem.summary and "rank 1" in wrong.problem.summary


# ---------------------------------------------------------------- NVLS


def test_rings_by_setting_are_compared_with_rings_and_the_setting_is_named() -> None:
    machine = with_environment(h100_node(), NCCL_NVLS_ENABLE="0")
    (found,), findings = graded({"n01": machine}, row("all_reduce", 365.0))
    assert (found.verdict, found.expected) == ("healthy", 360.0)
    assert "NCCL_NVLS_ENABLE=0" in found.reason
    assert ids(findings) == ["nvls-unused"]
    assert findings[0].problem.fix.commands == ("unset NCCL_NVLS_ENABLE",)


def test_nvls_that_is_lost_without_a_setting_points_at_fabric_manager() -> None:
    lost = "24 coll channels, 24 collnet channels, 0 nvls channels, 32 p2p channels, 32 p2p channels per peer"
    (found,), findings = graded({"n01": h100_node()}, row("all_reduce", 365.0), more=(lost,))
    assert found.verdict == "healthy"
    assert ids(findings) == ["nvls-unused"]
    assert "systemctl status nvidia-fabricmanager" in findings[0].problem.fix.commands


def test_no_word_about_nvls_on_a100() -> None:
    _, findings = graded({"n01": a100_node()}, row("all_reduce", 232.0))
    assert findings == ()


# ---------------------------------------------------------------- between nodes

BETWEEN = [
    # machine, what NCCL logs, collective, GB/s, verdict, link
    (h100_node(), "NET/IB/0/GDRDMA", "all_gather", 345.0, "healthy", "8 x 400 Gb/s InfiniBand a node"),
    (h100_node(), "NET/IB/0/GDRDMA", "all_gather", 100.0, "broken", "8 x 400 Gb/s InfiniBand a node"),
    (h100_node(), "NET/IBext_v8/0/GDRDMA", "all_gather", 345.0, "healthy", "8 x 400 Gb/s InfiniBand a node"),
    (a100_hdr(), "NET/IB/0/GDRDMA", "all_gather", 190.0, "healthy", "8 x 200 Gb/s InfiniBand a node"),
    (a100_hdr(), "NET/IB/0/GDRDMA", "all_gather", 120.0, "degraded", "8 x 200 Gb/s InfiniBand a node"),
    (dgx_h100(), "NET/IB/0/GDRDMA", "all_gather", 345.0, "healthy", "8 x 400 Gb/s InfiniBand a node"),
    (efa_with_plugin(), "NET/AWS Libfabric/0/GDRDMA", "all_gather", 45.0, "healthy", "4 x 100 Gb/s EFA a node"),
    (rtx_4090_node(), "NET/Socket/0", "all_gather", 0.8, "healthy", "TCP over enp6s0, 10 Gb/s"),
    (rtx_4090_node(), "NET/Socket/0", "all_gather", 0.2, "broken", "TCP over enp6s0, 10 Gb/s"),
]


@pytest.mark.parametrize(("machine", "between", "collective", "measured", "verdict", "link"), BETWEEN)
def test_two_nodes(machine: Snapshot, between: str, collective: str, measured: float, verdict: str, link: str) -> None:
    inside = "SHM/direct/direct" if "4090" in machine.nvidia.gpus.value[0].name.value else "P2P/CUMEM"
    (found,), findings = graded(pair(machine), row(collective, measured), inside=inside, between=between)
    assert (found.verdict, found.link) == (verdict, link)
    assert ids(findings) == ([] if verdict == "healthy" else [f"bandwidth-{verdict}"])


@pytest.mark.parametrize(("measured", "verdict"), [(345.0, "healthy"), (200.0, "not graded")])
def test_nics_behind_narrow_pcie_links_are_not_called_broken(measured: float, verdict: str) -> None:
    """Gen 4 x16 carries 252 of 400 Gb/s: that is how the machine was built."""
    machine = h100_node()
    devices = tuple(
        msgspec.structs.replace(device, pcie_speed="16.0 GT/s PCIe") for device in machine.network.rdma_devices.value
    )
    machine = but(machine, "network.rdma_devices", devices)
    (found,), findings = graded(pair(machine), row("all_gather", measured), between="NET/IB/0/GDRDMA")
    assert found.verdict == verdict and not findings
    assert ("carries 252 of 400 Gb/s" in found.reason) == (verdict == "not graded")


def test_faster_than_the_wire_is_not_called_healthy() -> None:
    """On two nodes a tree sends less than a ring: the bus bandwidth of all_reduce exceeds the NICs'."""
    (tree, ring), _ = graded(pair(a100_hdr()), row("all_reduce", 220.0), row("all_gather", 190.0))
    assert tree.verdict == "not graded" and "more than the wire's 200" in tree.reason
    assert ring.verdict == "healthy"


def test_a_slow_pair_is_handed_to_find_slow_with_its_hosts() -> None:
    _, (finding,) = graded(pair(h100_node()), row("all_gather", 100.0))
    assert "gpudoctor nccl-test --hosts n01,n02 --find-slow" in finding.problem.fix.commands


def test_the_node_with_the_slower_network_decides() -> None:
    machines = {"n01": dgx_h100(), "n02": a100_hdr()}
    (found,), _ = graded(machines, row("all_gather", 185.0))
    assert found.link == "8 x 200 Gb/s InfiniBand a node"


def test_a_setting_that_may_explain_it_is_named() -> None:
    machine = with_environment(h100_node(), NCCL_MAX_NCHANNELS="2")
    _, (finding,) = graded({"n01": machine}, row("all_gather", 60.0))
    assert "NCCL_MAX_NCHANNELS=2" in finding.problem.meaning
    assert finding.problem.fix.commands[0] == "unset NCCL_MAX_NCHANNELS"


def test_a_setting_that_only_the_log_knows_is_named_too() -> None:
    """--compare sets variables for the ranks that are not in the node's environment."""
    _, (finding,) = graded(
        {"n01": h100_node()}, row("all_gather", 60.0), more=("NCCL_MAX_CTAS set by environment to 4.",)
    )
    assert "NCCL_MAX_CTAS=4" in finding.problem.meaning


# ---------------------------------------------------------------- misconfigured


def test_tcp_beside_active_rdma_ports() -> None:
    machine = with_environment(h100_node(), NCCL_IB_DISABLE="1")
    (found,), findings = graded(pair(machine), row("all_gather", 1.0), between="NET/Socket/0")
    assert found.verdict == "misconfigured" and found.expected is None
    assert "8 ACTIVE RDMA ports" in found.reason
    assert ids(findings) == ["rdma-unused"]
    problem = findings[0].problem
    assert "NCCL_IB_DISABLE=1" in problem.meaning
    assert problem.fix.commands == ("unset NCCL_IB_DISABLE",)
    assert findings[0].nodes == ("n01", "n02")


def test_tcp_where_the_container_hides_the_devices_says_so() -> None:
    machine = with_network(h100_node(), rdma_nodes=())
    _, findings = graded(pair(machine), row("all_gather", 1.0), between="NET/Socket/0")
    assert "there is no /dev/infiniband/uverbs* here" in findings[0].problem.meaning
    assert findings[0].problem.fix.commands == ("gpudoctor check network nccl",)


def test_tcp_inside_one_node_is_no_fault() -> None:
    """NCCL says "Using network Socket" wherever nothing else is there; one node does not use it."""
    (found,), findings = graded({"n01": h100_node()}, row("all_gather", 365.0), more=("Using network Socket",))
    assert (found.verdict, findings) == ("healthy", ())


def test_tcp_without_rdma_is_no_fault() -> None:
    (found,), findings = graded(
        pair(with_interfaces(a100_pcie_node(), interface("eth0", "192.0.2.11/24"))),
        row("all_gather", 5.0),
        between="NET/Socket/0",
    )
    assert (found.verdict, found.link, findings) == ("healthy", "TCP over eth0, 100 Gb/s", ())


def test_gpu_direct_off_for_want_of_a_module() -> None:
    machine = with_network(h100_node(), gpu_direct=GpuDirect(open_kernel_module=False))
    machine = but(machine, "nvidia.cuda_version", (11, 4))
    (found,), findings = graded(pair(machine), row("all_gather", 120.0), between="NET/IB/0")
    assert found.verdict == "misconfigured"
    assert ids(findings) == ["gpu-direct-rdma-off"]
    assert "no peer memory module" in findings[0].problem.summary
    assert "sudo modprobe nvidia-peermem" in findings[0].problem.fix.commands


def test_gpu_direct_off_by_setting() -> None:
    machine = with_environment(h100_node(), NCCL_NET_GDR_LEVEL="LOC")
    _, findings = graded(pair(machine), row("all_gather", 120.0), between="NET/IB/0(1)/Shared")
    assert ids(findings) == ["gpu-direct-rdma-off"]
    assert findings[0].problem.fix.commands == ("unset NCCL_NET_GDR_LEVEL",)


def test_gpu_direct_off_though_nothing_speaks_against_it() -> None:
    (found,), findings = graded(pair(h100_node()), row("all_gather", 345.0), between="NET/IB/0")
    assert found.verdict == "misconfigured"
    assert "nothing that was read of the machine speaks against it" in findings[0].problem.summary


def test_gpu_direct_off_by_distance_is_worth_a_measurement() -> None:
    """The board is wired so: no fault, and graded by what is reached without GPUDirect."""
    machine = h100_node(4)
    far = root_path("0000:18:00.0", "pci0000:e0", 1)
    paths = machine.network.pci_paths.value | {"0000:18:00.0": far}
    machine = with_rdma(machine, *machine.network.rdma_devices.value[:1])
    machine = with_network(machine, pci_paths=paths)
    (found,), (note,) = graded(pair(machine), row("all_gather", 20.0), between="NET/IB/0")
    assert found.verdict == "healthy" and found.link.endswith("without GPUDirect RDMA")
    assert (note.id, note.problem.severity) == ("gpu-direct-too-far", "info")
    assert "SYS apart" in note.problem.summary


def test_gpu_direct_that_the_cards_lack_is_no_fault() -> None:
    geforce = tuple(gpu(index, name="NVIDIA GeForce RTX 4090", nvlinks=()) for index in range(8))
    machine = msgspec.structs.replace(h100_node(), nvidia=node(geforce).nvidia)
    _, findings = graded(pair(machine), row("all_gather", 10.0), between="NET/IB/0", inside="SHM/direct/direct")
    assert "gpu-direct-rdma-off" not in ids(findings)


@pytest.mark.parametrize("transport", ["SHM/direct/direct", "SHM/CE/direct", "SHM/direct"])
def test_host_memory_between_gpus_on_nvlink(transport: str) -> None:
    machine = with_environment(h100_node(), NCCL_P2P_DISABLE="1")
    (found,), findings = graded({"n01": machine}, row("all_gather", 9.0), inside=transport)
    assert found.verdict == "misconfigured"
    assert ids(findings) == ["peers-over-host-memory"]
    assert "18 NVLinks join them" in findings[0].problem.summary
    assert findings[0].problem.fix.commands == ("unset NCCL_P2P_DISABLE",)


def test_host_memory_between_distant_pcie_cards_is_nccls_choice() -> None:
    """NCCL keeps P2P below a PCIe switch by default since 2.23.4; the other way is worth a measurement."""
    (found,), (note,) = graded({"n01": a100_pcie_node()}, row("all_gather", 9.0), inside="SHM/direct/direct")
    assert found.verdict == "not graded" and "host memory" in found.link
    assert (note.id, note.problem.severity) == ("peers-too-far", "info")
    assert note.problem.fix.commands == ("gpudoctor nccl-test --compare NCCL_P2P_LEVEL=PXB,SYS",)


def test_host_memory_between_cards_that_offer_nothing_else_is_silent() -> None:
    machine = a100_pcie_node()
    peers = tuple(msgspec.structs.replace(peer, read="chipset-not-supported") for peer in machine.nvidia.peers.value)
    machine = but(machine, "nvidia.peers", peers)
    _, findings = graded({"n01": machine}, row("all_gather", 9.0), inside="SHM/direct/direct")
    assert findings == ()


# ---------------------------------------------------------------- others on the GPUs


def test_gpus_in_use_are_mentioned_and_weigh_more_when_it_is_slow() -> None:
    machine = but_gpu(
        h100_node(), 3, processes=(GpuProcess(4242, "compute", 1 << 30, command=read("proc", "train.py")),)
    )
    _, findings = graded({"n01": machine}, row("all_gather", 365.0))
    assert [(each.id, each.problem.severity) for each in findings] == [("gpu-busy", "info")]
    assert "GPU 3 of n01" in findings[0].problem.summary and "pid 4242 train.py" in findings[0].problem.summary
    _, findings = graded({"n01": machine}, row("all_gather", 200.0))
    assert ("gpu-busy", "warning") in [(each.id, each.problem.severity) for each in findings]


def test_a_run_without_rows_or_members() -> None:
    empty = RunResult(outcome="died", nodes=("n01",))
    assert grade(empty, {}, "nccl", {0: log_of("nonsense")}) == ((), ())


# ---------------------------------------------------------------- other links


def test_an_nvlink_domain_over_several_nodes() -> None:
    cards = tuple(gpu(index, name="NVIDIA GB200", compute_capability=(10, 0)) for index in range(4))
    machines = {"n01": node(cards), "n02": node(cards)}
    rows = row("all_reduce", 840.0), row("all_gather", 650.0)
    run = run_of(machines, *rows)
    (reduced, gathered), findings = grade(run, machines, "nccl", paths_log(run, "P2P/MNNVL", "P2P/MNNVL"))
    assert (reduced.verdict, reduced.expected) == ("healthy", 835.0)
    assert reduced.link == "NVLink between nodes (MNNVL), 8 GPUs"
    assert gathered.verdict == "not graded"
    assert findings == ()


def test_eight_mi300x() -> None:
    run = run_of({"n01": h100_node()}, row("all_reduce", 310.0))
    members = tuple(msgspec.structs.replace(each, device="AMD Instinct MI300X") for each in run.members)
    (found,), _ = grade(msgspec.structs.replace(run, members=members), {"n01": Snapshot()}, "nccl", {})
    assert (found.verdict, found.expected, found.link) == ("healthy", 313.0, "Infinity Fabric, 8 GPUs")


@pytest.mark.parametrize(("measured", "verdict"), [(194.0, "healthy"), (192.0, "degraded"), (128.0, "broken")])
def test_an_alarm_line_is_taken_as_it_is(measured: float, verdict: str) -> None:
    machine = a100_pcie_node(2)
    for here, there in ((0, 1), (1, 0)):
        machine = but_gpu(machine, here, nvlinks=(NvLink(0, True, "gpu", gpu_address(there)),))
    (found,), _ = graded({"n01": machine}, row("all_gather", measured))
    assert (found.verdict, found.expected, found.link) == (verdict, 193.0, "NVLink 3, 2 GPUs")


LINES = st.sampled_from(
    [
        "Using network Socket",
        "Using network IB",
        "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0",
        "Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0",
        "Channel 00 : 0[0] -> 1[1] via SHM/direct",
        "Channel 00/0 : 0[0] -> 999[1] via P2P/MNNVL",
        "NCCL_ALGO set by environment to ^NVLS",
        "NVLS multicast support is not available on dev 0",
        "AllReduce: 1 Bytes -> Algo 77 proto x channel",
    ]
)
MACHINES = st.sampled_from([Snapshot(), h100_node(), t4_node(), dgx_h100(), efa_with_plugin(), a100_pcie_node()])


@given(MACHINES, MACHINES, st.lists(LINES | st.text(max_size=20), max_size=8), st.floats(0, 1e6))
def test_whatever_was_read_and_logged_there_is_an_answer(
    one: Snapshot, other: Snapshot, lines: list[str], measured: float
) -> None:
    run = run_of(pair(h100_node()), row("all_reduce", measured), row("all_gather", measured))
    found, findings = grade(run, {"n01": one, "n02": other}, "nccl", {rank: log_of(*lines) for rank in range(16)})
    assert len(found) == 2
    for each in found:
        assert (each.verdict in ("healthy", "degraded", "broken")) == (each.expected is not None)
        assert each.reason or each.expected is not None
    for finding in findings:
        assert finding.problem.summary and finding.problem.fix.text and finding.nodes
