"""Path classes, the matrix of `gpudoctor topology`, and what NVML and the PCI tree say of one another."""

import io
import json
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import msgspec
import pytest
from hypothesis import given, strategies as st

from gpudoctor.envelope import encode
from gpudoctor.knowledge.network.topology import (
    Disagreement,
    between,
    disagreements,
    nearest,
    nvlinks_between,
    path_class,
)
from gpudoctor.render.prose import console
from gpudoctor.render.topology import show_topology
from gpudoctor.snapshot import NotRead, NvLink, PciPath, Snapshot, TopologyLevel, missing, read, to_json
from gpudoctor.testing.machines import but, h100_node, node, rtx_4090_node, t4_node, unread
from gpudoctor.testing.networks import gpu_address, hca_address, rdma_device, with_network, with_rdma
from gpudoctor.topology import Branch, TopologyAnswer, topology

pytestmark = pytest.mark.usefixtures("forks")

H100 = h100_node()
SWITCH = ("0000:19:00.0", "0000:18:00.0", "0000:17:01.0")
"""A slot of a switch, the switch's upstream port, the root port."""


def at(bus_id: str, *upstream: str, root: str = "pci0000:17", numa: int = 0) -> PciPath:
    return PciPath(bus_id, upstream, root, numa)


@pytest.mark.parametrize(
    ("other", "wanted"),
    [
        (at("0000:1a:00.0", *SWITCH), "SELF"),
        (at("0000:1a:00.1", *SWITCH), "PIX"),  # two functions of one card
        (at("0000:1b:00.0", "0000:19:01.0", *SWITCH[1:]), "PIX"),
        (at("0000:1d:00.0", "0000:1c:00.0", "0000:1b:00.0", "0000:19:01.0", *SWITCH[1:]), "PXB"),
        (at("0000:20:00.0", "0000:17:03.0"), "PHB"),
        (at("0000:30:00.0", "0000:29:01.0", root="pci0000:29"), "NODE"),
        (at("0000:a0:00.0", "0000:9f:01.0", root="pci0000:9f", numa=1), "SYS"),
        (at("0000:18:00.0", "0000:17:01.0"), "PIX"),  # the switch itself
    ],
)
def test_classes_by_the_tree(other: PciPath, wanted: str) -> None:
    one = at("0000:1a:00.0", *SWITCH)
    assert between(one, other) == between(other, one) == wanted


PLACES = st.builds(
    lambda bus, chain, root, numa: PciPath(
        f"0000:{bus:02x}:00.0", tuple(f"0000:{b:02x}:01.0" for b in chain), root, numa
    ),
    st.integers(0, 255),
    st.lists(st.integers(0, 255), max_size=6, unique=True),
    st.sampled_from(["pci0000:00", "pci0000:80", ""]),
    st.sampled_from([-1, 0, 1]),
)


@given(PLACES, PLACES)
def test_the_class_is_the_same_both_ways(one: PciPath, other: PciPath) -> None:
    assert between(one, other) == between(other, one)


def test_nvlink_then_nvml_then_the_tree() -> None:
    assert path_class(H100, gpu_address(0), gpu_address(7)) == "NVL"
    assert path_class(H100, gpu_address(0).upper(), "00000000:18:00.0") == "PIX"
    assert path_class(H100, gpu_address(0), hca_address(1)) == "NODE"
    assert path_class(H100, gpu_address(0), hca_address(7)) == "SYS"
    pcie = rtx_4090_node(2)
    said = read("nvmlDeviceGetTopologyCommonAncestor", (TopologyLevel(0, 1, "multiple"),))
    assert path_class(but(pcie, "nvidia.topology", said), gpu_address(0), gpu_address(1)) == "PXB"
    assert path_class(but(pcie, "nvidia.topology", unread()), gpu_address(0), gpu_address(1)) == "PHB"


def test_what_is_not_in_the_tree_is_not_known() -> None:
    with pytest.raises(NotRead, match="not in the PCI tree"):
        path_class(H100, gpu_address(0), "0000:ff:00.0")
    with pytest.raises(NotRead, match="permission denied"):
        path_class(with_network(H100, pci_paths=unread()), gpu_address(0), hca_address(0))


def test_the_nearest_nic() -> None:
    devices, path = nearest(H100, gpu_address(3))
    assert ([device.name for device in devices], path) == (["mlx5_3"], "PIX")
    assert nearest(t4_node(), gpu_address(0)) == ((), "")


def test_a_disagreement_is_about_switches_only() -> None:
    assert disagreements(H100) == ()
    levels = (TopologyLevel(0, 1, "hostbridge"), TopologyLevel(0, 2, "single"), TopologyLevel(0, 9, "single"))
    machine = but(H100, "nvidia.topology", levels)
    assert disagreements(machine) == (Disagreement(0, 2, "PIX", "NODE"),)
    assert any("NVML sees GPU0 and GPU2 PIX apart" in note for note in topology(machine).notes)


# ---------------------------------------------------------------- the command


def shown(machine: Snapshot, width: int = 80) -> str:
    text = io.StringIO()
    show_topology(topology(machine), console(file=text, width=width))
    return text.getvalue()


def test_eight_gpus_and_eight_nics_fit_80_columns() -> None:
    text = shown(H100)
    assert max(map(len, text.splitlines())) <= 80
    assert "GPU3 NV18 NV18 NV18    X NV18 NV18 NV18 NV18 PHB PHB PHB PIX SYS SYS SYS SYS" in text
    assert "GPU4  0000:5b:00.0  1     56-111  NVIDIA H100 80GB HBM3" in text
    assert "NIC0  0000:18:00.0  0     0-55    mlx5_0  InfiniBand 400 Gb/s ACTIVE" in text
    assert "NCCL uses GPUDirect RDMA between GPU0-NIC0, GPU1-NIC1" in text
    assert "├─ host bridge pci0000:15, PCIe bridge 0000:16:00.0\n│  ├─ GPU0 0000:1b:00.0\n│  └─ NIC0" in text


def test_why_a_near_pair_does_without_gpudirect() -> None:
    text = shown(with_network(H100, gpu_direct=missing("/sys", "permission denied", "denied")))
    assert "GPUDirect RDMA: not known (/sys: permission denied)" in text.replace("\n", " ")
    off = but(H100, "environment", {"NCCL_NET_GDR_LEVEL": "LOC"})
    assert "NCCL_NET_GDR_LEVEL=LOC allows LOC" in shown(off).replace("\n", " ")


def test_a_machine_without_rdma_and_one_without_gpus() -> None:
    assert "GPU0    X  PHB" in shown(t4_node())
    hcas = with_rdma(node(()), rdma_device(0), rdma_device(1))
    assert "NIC0    X    ?" in shown(hcas)


def test_what_is_not_read_is_said() -> None:
    answer = topology(Snapshot())
    assert (answer.gpus, answer.nics, answer.pairs, answer.tree) == ((), (), (), ())
    assert "GPUs: not read (snapshot: not in this snapshot)" in answer.notes


def test_bridges_that_lead_to_one_thing_are_not_drawn() -> None:
    deep = PciPath("0000:1b:00.0", ("0000:1a:04.0", "0000:19:00.0", "0000:18:00.0", "0000:17:00.0"), "pci0000:16", 0)
    machine = with_network(h100_node(1), pci_paths={deep.bus_id: deep})
    (numa,) = topology(machine).tree
    assert numa.name == "NUMA node 0"
    leaf = numa.children[0]
    while leaf.children:
        assert len(leaf.children) == 1
        leaf = leaf.children[0]
    assert leaf == Branch("GPU0 0000:1b:00.0")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpudoctor", "topology", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=90, stdin=subprocess.DEVNULL)


def test_the_command_on_a_file(tmp_path: Path) -> None:
    file = tmp_path / "machine.json"
    file.write_bytes(to_json(H100))
    done = run("--from", str(file), "--json")
    answer = json.loads(done.stdout)
    jsonschema.validate(answer, msgspec.json.schema(TopologyAnswer))
    assert json.loads(encode(topology(H100))) == answer | {"machine": None}
    near = next(pair for pair in answer["pairs"] if (pair["a"], pair["b"]) == ("GPU5", "NIC5"))
    assert (near["path"], near["nvidia_smi"], near["gpu_direct"]) == ("PIX", "PIX", True)
    assert re.search(r"GPU7 .*\n", run("--from", str(file), "--no-color").stdout)


def test_a_machine_with_nothing_gets_one_line(tmp_path: Path) -> None:
    file = tmp_path / "machine.json"
    file.write_bytes(to_json(node(())))
    done = run("--from", str(file))
    assert done.returncode == 3
    assert done.stderr == "gpudoctor: nothing to show: this machine has neither NVIDIA GPUs nor RDMA devices\n"


def test_a_machine_with_nothing_ends_alike_encode(tmp_path: Path) -> None:
    file = tmp_path / "machine.json"
    file.write_bytes(to_json(node(())))
    done = run("--from", str(file), "--json")
    assert done.returncode == 3
    answer = json.loads(done.stdout)
    jsonschema.validate(answer, msgspec.json.schema(TopologyAnswer))
    assert (answer["gpus"], answer["nics"]) == ([], [])
    assert done.stderr == run("--from", str(file)).stderr


def test_both_ends_of_an_nvlink_count() -> None:
    """GPU 1 has lost 12 of its 18 links: GPU 0 has 18 that are up, and 6 carry data between the two."""
    whole = h100_node(2)
    lame = tuple(NvLink(link, link < 6, "switch") for link in range(18))
    for sick in (0, 1):
        gpus = list(whole.nvidia.gpus.value)
        gpus[sick] = msgspec.structs.replace(gpus[sick], nvlinks=read("nvmlDeviceGetNvLinkState", lame))
        assert nvlinks_between(whole, gpus[0], gpus[1]) == nvlinks_between(whole, gpus[1], gpus[0]) == 6
    # bridged GPUs, of which one does not tell where its links lead
    told = tuple(NvLink(link, True, "gpu", gpu_address(1)) for link in range(4))
    gpus[0] = msgspec.structs.replace(gpus[0], nvlinks=read("nvmlDeviceGetNvLinkState", told))
    gpus[1] = msgspec.structs.replace(gpus[1], nvlinks=unread())
    assert nvlinks_between(whole, gpus[0], gpus[1]) == nvlinks_between(whole, gpus[1], gpus[0]) == 4
