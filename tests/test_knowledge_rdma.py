"""Which RDMA ports NCCL takes, and with which GPUs it uses GPUDirect RDMA."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from gpudoctor.knowledge.network.gpu_direct import (
    GdrVerdict,
    cuda_device,
    kernel_version,
    level,
    parsed_level,
    peer_memory,
    verdicts,
)
from gpudoctor.knowledge.network.rdma_selection import WantedPort, cannot_open, parse_filter, rdma_choice, usable
from gpudoctor.snapshot import GpuDirect, NotRead, Snapshot, read
from gpudoctor.testing.machines import but, h100_node, rtx_4090_node, t4_node, unread
from gpudoctor.testing.networks import (
    changed_port,
    hca_address,
    nccl_files,
    port,
    rdma_device,
    rdma_nodes,
    with_network,
    with_rdma,
)

H100 = h100_node()
ALL = tuple((f"mlx5_{index}", 1) for index in range(8))


def under(machine: Snapshot, **variables: str) -> Snapshot:
    return but(machine, "environment", variables)


def with_nccl(machine: Snapshot, *version: int) -> Snapshot:
    facts = msgspec.structs.replace(machine.training.torch.value, nccl_version=version)
    return but(machine, "training.torch", facts)


# ---------------------------------------------------------------- which ports


def test_every_active_port_is_taken() -> None:
    choice = rdma_choice(H100)
    assert (choice.taken, choice.passed_over, choice.hca_filter, choice.filter_matched) == (ALL, (), "", True)


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("mlx5_1", ["mlx5_1", "mlx5_10"]),
        ("=mlx5_1", ["mlx5_1"]),
        ("^mlx5_1", ["mlx5_0"]),
        ("^=mlx5_1", ["mlx5_0", "mlx5_10"]),
        ("=^mlx5_1", []),  # a device of the name "^mlx5_1"
        ("mlx5_1:2", []),
        ("mlx5_0:1,=mlx5_1", ["mlx5_0"]),
        ("mlx5", ["mlx5_0", "mlx5_1", "mlx5_10"]),
        ("", ["mlx5_0", "mlx5_1", "mlx5_10"]),
        ("=", ["mlx5_0", "mlx5_1", "mlx5_10"]),
        ("^", []),  # excludes what an empty list fits: everything
        (" mlx5_0", []),  # blanks belong to the name
        ("mlx5_0:", []),  # port 0; any since 2.30.7
        ("mlx5_0:1:3:2", ["mlx5_0"]),  # rail and plane, NCCL 2.30
        ("mlx5_0:x", []),  # atoi says port 0
        (",,mlx5_0,", ["mlx5_0"]),
        ("eth0", []),
    ],
)
def test_nccl_ib_hca(text: str, taken: list[str]) -> None:
    machine = with_rdma(h100_node(2), *(rdma_device(index) for index in (0, 1, 10)))
    choice = rdma_choice(under(machine, NCCL_IB_HCA=text))
    assert [name for name, _ in choice.taken] == taken
    assert choice.filter_matched == bool(taken)
    assert all("NCCL_IB_HCA" in reason for _, _, reason in choice.passed_over)


def test_the_file_counts_as_well() -> None:
    machine = with_network(H100, nccl_files=nccl_files(system={"NCCL_IB_HCA": "=mlx5_3"}))
    assert rdma_choice(machine).taken == (("mlx5_3", 1),)


@given(st.text(max_size=40))
def test_any_filter_is_read(text: str) -> None:
    chosen = parse_filter(text)
    assert all(entry.device for entry in chosen.entries) and len(chosen.entries) <= 32
    assert chosen.takes("mlx5_0", 1) != chosen._replace(excludes=not chosen.excludes).takes("mlx5_0", 1)


def test_each_device_needs_its_own_file() -> None:
    """What a container is given decides, and not that it was given something."""
    devices = [rdma_device(index, uverbs=f"uverbs{7 - index}") for index in range(8)]
    machine = with_network(with_rdma(H100, *devices), rdma_nodes=rdma_nodes(2))
    choice = rdma_choice(machine)
    assert choice.taken == (("mlx5_6", 1), ("mlx5_7", 1))
    assert choice.passed_over[0] == ("mlx5_0", 1, "there is no /dev/infiniband/uverbs7 here")
    assert cannot_open(machine) == ""
    assert cannot_open(with_network(machine, rdma_nodes=rdma_nodes(0))) == "there is no /dev/infiniband/uverbs* here"


def test_a_colon_without_a_number_is_port_0_before_2_30_7() -> None:
    assert parse_filter("mlx5_0:", (2, 30, 4)).entries == (WantedPort("mlx5_0", 0),)
    assert parse_filter("mlx5_0:", (2, 30, 7)).entries == (WantedPort("mlx5_0", None),)


def test_only_32_entries_are_read() -> None:
    assert parse_filter(",".join(f"d{n}" for n in range(50))).entries[-1] == WantedPort("d31", None)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"state": "DOWN"}, "its port is DOWN"),
        ({"state": "INIT"}, "its port is INIT"),
        ({"link_layer": "Unspecified"}, "its link layer is Unspecified"),
    ],
)
def test_ports_that_nccl_leaves(facts: dict[str, Any], reason: str) -> None:
    choice = rdma_choice(changed_port(H100, "mlx5_3", **facts))
    assert [(name, number) for name, number, _ in choice.passed_over] == [("mlx5_3", 1)]
    assert choice.passed_over[0][2].startswith(reason)
    assert len(choice.taken) == 7 and choice.filter_matched
    assert not usable(port(**facts))


@pytest.mark.parametrize(("value", "off"), [("1", True), ("0", False), ("true", False), ("2", True), ("", False)])
def test_nccl_ib_disable_is_a_number(value: str, off: bool) -> None:
    choice = rdma_choice(under(H100, NCCL_IB_DISABLE=value))
    assert (choice.taken == ()) is off
    assert not off or choice.passed_over[0][2] == f"NCCL_IB_DISABLE={value} turns RDMA off"


def test_what_cannot_be_opened_is_not_taken() -> None:
    assert rdma_choice(with_network(H100, rdma_nodes=rdma_nodes(0))).taken == ()
    without = rdma_choice(with_network(H100, verbs_library=""))
    assert without.passed_over[0][2] == "libibverbs.so.1 is not installed"
    assert rdma_choice(t4_node()).taken == ()


def test_a_port_that_was_not_read_leaves_no_choice() -> None:
    with pytest.raises(NotRead):
        rdma_choice(changed_port(H100, "mlx5_3", state=unread()))


# ---------------------------------------------------------------- GPUDirect RDMA


def of(machine: Snapshot, gpu: int = 0, device: str = "mlx5_0") -> GdrVerdict:
    return next(verdict for verdict in verdicts(machine) if (verdict.gpu, verdict.device) == (gpu, device))


def on_driver(machine: Snapshot, **fields: Any) -> Snapshot:
    answer = machine.cuda.visible.value
    devices = tuple(msgspec.structs.replace(device, **fields) for device in answer.devices)
    said = read("libcuda", msgspec.structs.replace(answer, devices=devices))
    return but(but(machine, "cuda.visible", said), "cuda.all", said)


NO_MODULE = with_network(H100, gpu_direct=GpuDirect(open_kernel_module=False))


def test_near_pairs_use_it_and_far_ones_do_not() -> None:
    assert of(H100) == GdrVerdict(0, "mlx5_0", True, "by nvidia_peermem", "PIX")
    far = of(H100, 0, "mlx5_1")
    assert (far.used, far.path, far.condition) == (False, "PHB", "distance")
    assert far.reason == "the two are PHB apart, and NCCL's default allows PXB"
    assert sum(verdict.used is True for verdict in verdicts(H100)) == 8


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("PIX", "PIX"),
        ("PHB", "PHB"),
        ("SYS", "SYS"),
        ("LOC", "LOC"),
        ("0", "LOC"),
        ("1", "PIX"),
        ("2", "PXB"),
        ("3", "PHB"),
        ("4", "SYS"),
        ("99", "SYS"),
        ("phb", "PXB"),
        ("", "PXB"),
        ("-1", "PXB"),
        ("NODE", "PXB"),
    ],
)
def test_the_level(text: str, name: str) -> None:
    assert level(under(H100, NCCL_NET_GDR_LEVEL=text)).name == name
    assert parsed_level(text) in (name, "")


def test_a_wider_level_lets_far_pairs() -> None:
    wide = under(H100, NCCL_NET_GDR_LEVEL="PHB")
    assert of(wide, 0, "mlx5_1").used is True
    assert of(wide, 0, "mlx5_7").used is False
    assert of(under(H100, NCCL_NET_GDR_LEVEL="4"), 0, "mlx5_7").used is True


@pytest.mark.parametrize(
    ("module", "version", "seen"),
    [
        ("nv_peer_mem", (2, 10, 3), "nv_peer_mem"),
        ("nv_peer_mem_nc", (2, 21, 5), ""),
        ("nv_peer_mem_nc", (2, 22, 3), "nv_peer_mem_nc"),
        ("nvidia_peermem", (2, 22, 3), ""),
        ("nvidia_peermem", (2, 23, 4), "nvidia_peermem"),
    ],
)
def test_which_nccl_looks_where(module: str, version: tuple[int, ...], seen: str) -> None:
    machine = with_network(with_nccl(H100, *version), gpu_direct=msgspec.structs.replace(GpuDirect(), **{module: "1"}))
    assert peer_memory(machine) == seen


def test_dma_buf_in_the_place_of_a_module() -> None:
    assert of(NO_MODULE) == GdrVerdict(0, "mlx5_0", True, "by DMA-BUF", "PIX")


@pytest.mark.parametrize(
    ("machine", "used", "words"),
    [
        (on_driver(NO_MODULE, dma_buf=False), False, "does not offer DMA-BUF (its open kernel module would)"),
        (on_driver(NO_MODULE, dma_buf=None), None, "did not say whether this GPU offers DMA-BUF"),
        (under(NO_MODULE, NCCL_DMABUF_ENABLE="0"), False, "NCCL_DMABUF_ENABLE=0"),
        (with_nccl(NO_MODULE, 2, 12, 12), False, "2.13.4"),
        (but(NO_MODULE, "nvidia.cuda_version", (11, 6)), False, "this one serves 11.6"),
        (but(NO_MODULE, "host.kernel_release", "5.4.0-216-generic"), False, "this is 5.4"),
        (with_rdma(NO_MODULE, rdma_device(0, driver="irdma")), None, "the kernel driver irdma"),
    ],
)
def test_what_keeps_dma_buf_away(machine: Snapshot, used: bool | None, words: str) -> None:
    verdict = of(machine)
    assert verdict.used is used
    assert words in verdict.reason
    assert verdict.condition == ("unknown" if used is None else "module")


def test_the_gpu_has_its_say() -> None:
    geforce = with_network(
        with_rdma(rtx_4090_node(2), rdma_device(0)),
        gpu_direct=H100.network.gpu_direct,
        verbs_library=H100.network.verbs_library,
    )
    assert {(verdict.used, verdict.condition) for verdict in verdicts(geforce)} == {(False, "gpu")}
    silent = of(on_driver(H100, gpu_direct_rdma=None))
    assert (silent.used, silent.condition) == (None, "unknown")


def test_what_is_not_in_the_tree_is_not_known() -> None:
    machine = with_rdma(H100, rdma_device(0, pci_bus_id="0000:ee:00.0"))
    assert (of(machine).used, of(machine).path, of(machine).condition) == (None, "", "unknown")


def test_a_grace_cpu_counts_as_near_since_2_27_3() -> None:
    names = [msgspec.structs.replace(gpu, name=read("nvml", "NVIDIA GB200")) for gpu in H100.nvidia.gpus.value]
    grace = but(H100, "nvidia.gpus", tuple(names))
    assert (of(grace, 0, "mlx5_1").path, of(grace, 0, "mlx5_1").used) == ("P2C", True)
    assert of(with_nccl(grace, 2, 26, 2), 0, "mlx5_1").used is False
    assert of(under(grace, NCCL_NET_GDR_C2C="0"), 0, "mlx5_1").used is False


def test_only_ports_that_nccl_takes_have_a_verdict() -> None:
    assert {verdict.device for verdict in verdicts(under(H100, NCCL_IB_HCA="=mlx5_2"))} == {"mlx5_2"}
    assert verdicts(under(H100, NCCL_IB_DISABLE="1")) == ()


def test_small_words() -> None:
    assert kernel_version("6.8.0-60-generic") == (6, 8)
    assert kernel_version("gvisor") is None
    found = cuda_device(H100, H100.nvidia.gpus.value[2])
    assert found is not None and found.ordinal == 2
    assert hca_address(2) == "0000:38:00.0"
