"""RDMA devices, their counters, /dev/infiniband, libibverbs, peer memory and PCI paths: readers on fake trees."""

import errno
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from gpudoctor.read import rdma
from gpudoctor.read.gpu_direct import read_gpu_direct
from gpudoctor.read.local import run
from gpudoctor.read.pci_paths import path_of, read_paths
from gpudoctor.read.rdma import (
    after_number,
    printable,
    rate_gbps,
    read_devices,
    read_library,
    read_nodes,
    whole_number,
)
from gpudoctor.read.reader import Reader
from gpudoctor.read.system import System
from gpudoctor.snapshot import Gid, GpuDirect, PciPath, RdmaDevice
from tests.fake_rdma import CLASS, device
from tests.fake_tree import Link, Refusing, fake

LOCAL = "fe80:0000:0000:0000:a288:c2ff:fe12:3456"
MAPPED = "0000:0000:0000:0000:0000:ffff:0a00:000b"
GIDS = {0: (LOCAL, "IB/RoCE v1", "eth1"), 3: (MAPPED, "RoCE v2", "eth1")}


def devices(system: System) -> tuple[RdmaDevice, ...]:
    found: tuple[RdmaDevice, ...] = read_devices(system, lambda seconds: None)["network.rdma_devices"].value
    return found


def test_a_device_as_it_stands_in_sysfs(tmp_path: Path) -> None:
    (found,) = devices(fake(tmp_path, device("mlx5_0", gids=GIDS)))
    assert (found.name, found.driver, found.board_id.value) == ("mlx5_0", "mlx5_core", "MT_0000000838")
    assert (found.firmware.value, found.numa_node.value, found.pci_bus_id.value) == ("28.39.1002", 1, "0000:1a:00.0")
    assert found.interfaces == ("ib0",)
    assert not found.is_virtual_function
    (port,) = found.ports
    assert (port.number, port.state.value, port.physical_state.value) == (1, "ACTIVE", "LinkUp")
    assert (port.rate_gbps.value, port.link_layer.value) == (400.0, "InfiniBand")
    assert (port.lid.value, port.subnet_manager_lid.value) == (0x1A, 1)
    # Entries that are zero are holes, and end nothing.
    assert port.gids.value == (Gid(0, LOCAL, "IB/RoCE v1", "eth1"), Gid(3, MAPPED, "RoCE v2", "eth1"))
    assert (port.counters.value, port.counting.value) == ({}, {})


@pytest.mark.parametrize(
    ("speed", "width", "expected"),
    [
        ("16.0 GT/s PCIe\n", "16\n", ("16.0 GT/s PCIe", 16)),
        ("Unknown\n", "0\n", ("", None)),
        (None, None, ("", None)),
        ("\n", "255\n", ("", None)),
    ],
)
def test_the_pcie_link_of_a_card(
    tmp_path: Path, speed: str | None, width: str | None, expected: tuple[str, int | None]
) -> None:
    files = device("mlx5_7")
    folder = "/sys/devices/pci0000:17/0000:17:01.0/0000:1a:00.0"
    files |= {f"{folder}/current_link_{name}": text for name, text in (("speed", speed), ("width", width)) if text}
    (found,) = devices(fake(tmp_path, files))
    assert (found.pcie_speed, found.pcie_width) == expected


def test_no_rdma_and_no_sys(tmp_path: Path) -> None:
    assert devices(fake(tmp_path / "a", {"/sys/class/net/": ""})) == ()
    assert (
        read_devices(fake(tmp_path / "b", {"/proc/": ""}))["network.rdma_devices"].reason == "/sys is not mounted here"
    )


def test_soft_roce_and_virtual_functions(tmp_path: Path) -> None:
    files = device("mlx5_7") | {"/sys/devices/pci0000:17/0000:17:01.0/0000:1a:00.0/physfn/": ""}
    files |= {f"{CLASS}/rxe0/ports/1/state": "4: ACTIVE\n"}
    function, soft = devices(fake(tmp_path, files))
    assert function.is_virtual_function
    assert soft.pci_bus_id.missing_kind == soft.board_id.missing_kind == "absent"
    assert soft.ports[0].state.value == "ACTIVE"
    assert soft.ports[0].counters.missing_kind == "absent"


def test_types_that_a_container_refuses_cost_the_types_only(tmp_path: Path) -> None:
    files = {path: text for path, text in device("mlx5_0", gids=GIDS).items() if "gid_attrs" not in path}
    (found,) = devices(fake(tmp_path, files))
    assert found.ports[0].gids.value == (Gid(0, LOCAL), Gid(3, MAPPED))


class Machine(System):
    """A tree in which counters grow between two looks, and some refuse."""

    def __init__(self, tree: System, growth: dict[str, int], refused: Iterable[str] = ()) -> None:
        super().__init__(tree.root, tree.environment)
        self.growth, self.refused, self.asked = growth, set(refused), list[str]()

    def contents(self, path: str, names: Iterable[str] | None = None, limit: int = 4096) -> dict[str, bytes | OSError]:
        found = super().contents(path, names, limit)
        if "counters" not in path:
            return found
        self.asked += list(found)
        for name in self.refused & set(found):
            found[name] = OSError(errno.EINVAL, "Invalid argument")
        return found

    def grow(self, seconds: float) -> None:
        assert 0 < seconds <= 60
        for path, by in self.growth.items():
            place = self.at(f"{CLASS}/mlx5_0/ports/1/{path}")
            place.write_text(f"{int(place.read_text()) + by}\n")


def test_what_is_still_counting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert rdma.LOOKS_APART_SECONDS <= 0.05
    monkeypatch.setattr(rdma, "LOOKS_APART_SECONDS", 60)  # or a slow machine has waited long enough already
    tree = fake(tmp_path, device("mlx5_0", counters={"link_downed": 40, "symbol_error": 7, "out_of_sequence": 1}))
    machine = Machine(tree, {"counters/symbol_error": 3, "hw_counters/out_of_sequence": 2})
    found = read_devices(machine, machine.grow)["network.rdma_devices"].value[0].ports[0]
    assert found.counters.value == {"link_downed": 40, "symbol_error": 7, "out_of_sequence": 1}
    assert found.counting.value == {"symbol_error": 3, "out_of_sequence": 2}
    assert sorted(name for name in set(machine.asked) if machine.asked.count(name) == 2) == [
        "link_downed",
        "out_of_sequence",
        "symbol_error",
    ], "only what was not zero is looked at again"


def test_a_counter_that_refuses_is_asked_once(tmp_path: Path) -> None:
    machine = Machine(fake(tmp_path, device("mlx5_0", counters={"link_downed": 1})), {}, ["symbol_error"])
    (found,) = devices(machine)
    assert found.ports[0].counters.value == {"link_downed": 1}
    assert machine.asked.count("symbol_error") == 1


def test_all_counters_refused_is_a_reason(tmp_path: Path) -> None:
    tree = fake(tmp_path, device("mlx5_0"))
    names = [path.name for path in tree.at(f"{CLASS}/mlx5_0/ports/1").glob("*counters/*")]
    port = devices(Machine(tree, {}, names))[0].ports[0]
    assert port.counters.reason == port.counting.reason == "Invalid argument"


def test_nobody_waits_for_counters_at_zero(tmp_path: Path) -> None:
    def never(seconds: float) -> None:
        raise AssertionError("waited")

    assert read_devices(fake(tmp_path, device("mlx5_0")), never)["network.rdma_devices"].is_read


def test_a_state_that_may_not_be_read_is_a_reason(tmp_path: Path) -> None:
    tree = Refusing(fake(tmp_path, device("mlx5_0")), f"{CLASS}/mlx5_0/ports/1/state")
    (found,) = devices(tree)
    assert found.ports[0].state.missing_kind == "denied"
    assert found.ports[0].rate_gbps.value == 400.0


@pytest.mark.parametrize("text", ["", "\x00", "ACTIVE", "4:", "x" * 500])
def test_words_that_no_driver_writes(text: str) -> None:
    for meaning in (after_number, rate_gbps, whole_number):
        with pytest.raises(ValueError):
            meaning(printable(text))


FILES = st.sampled_from(sorted(path for path in device("mlx5_0", gids=GIDS) if path.startswith(CLASS)))
CONTENT = st.one_of(
    st.binary(max_size=60), st.text(max_size=30).map(str.encode), st.integers().map(lambda n: b"%d" % n)
)


@given(st.dictionaries(FILES, CONTENT, max_size=8))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
def test_absurd_contents_are_values_or_reasons(
    tmp_path_factory: pytest.TempPathFactory, broken: dict[str, bytes]
) -> None:
    files: dict[str, str | bytes | Link] = dict(device("mlx5_0", gids=GIDS))
    files |= {path: content for path, content in broken.items() if not isinstance(files[path], Link)}
    system = fake(tmp_path_factory.mktemp("tree"), files)
    reader = Reader("rdma", read_devices.fields, lambda one: read_devices(one, lambda seconds: None))
    found = run(reader, system)["network.rdma_devices"]
    assert found.is_read, found.reason
    for port in found.value[0].ports:
        for reading in (port.state, port.rate_gbps, port.lid, port.gids, port.counters):
            assert reading.is_read or reading.reason
        for gid in port.gids.value_or(()):
            assert len(gid.gid) == 39 and gid.type.isprintable() and gid.interface.isprintable()


def test_folders_in_place_of_files_and_files_of_folders(tmp_path: Path) -> None:
    files = {f"{CLASS}/a/ports": "text", f"{CLASS}/b/ports/1/gids": "text", f"{CLASS}/b/ports/1/state/": ""}
    files |= {f"{CLASS}/b/ports/x/state": "4: ACTIVE", f"{CLASS}/bonding_masters": ""}
    found = {one.name: one for one in devices(fake(tmp_path, dict(files)))}
    assert found["a"].ports == found["bonding_masters"].ports == ()
    (port,) = found["b"].ports
    assert not port.state.is_read and port.gids.reason == "Not a directory"


# ---------------------------------------------------------------- device files and the library


def test_device_files(tmp_path: Path) -> None:
    system = fake(tmp_path, {"/dev/infiniband/uverbs0": "", "/etc/passwd": "root:x:0:0::/:/bin/sh\n"})
    (found,) = read_nodes(system)["network.rdma_nodes"].value
    assert (found.path, found.readable) == ("/dev/infiniband/uverbs0", True)
    assert read_nodes(fake(tmp_path / "none", {"/dev/null": ""}))["network.rdma_nodes"].value == ()


def test_which_file_is_whose(tmp_path: Path) -> None:
    files = {f"{CLASS}/{name}/ports/1/state": "4: ACTIVE" for name in ("mlx5_0", "mlx5_1", "efa_0")}
    verbs = "/sys/class/infiniband_verbs"
    files |= {f"{verbs}/uverbs7/ibdev": "mlx5_0\n", f"{verbs}/uverbs0/ibdev": "mlx5_1", f"{verbs}/abi_version": "6"}
    found = {one.name: one.uverbs for one in devices(fake(tmp_path, dict(files)))}
    assert found == {"mlx5_0": "uverbs7", "mlx5_1": "uverbs0", "efa_0": ""}


def library(system: System) -> Any:
    return read_library(system)["network.verbs_library"].value


def test_where_the_loader_finds_libibverbs(tmp_path: Path) -> None:
    path = "/opt/rdma/lib/libibverbs.so.1"
    cache = b"ld.so-1.7.0\0junk\0libibverbs.so.1\0" + path.encode() + b"\0/gone/libibverbs.so.1\0"
    assert library(fake(tmp_path / "a", {"/etc/ld.so.cache": cache, path: ""})) == path
    assert library(fake(tmp_path / "b", {"/etc/ld.so.cache": cache})) == "", "the cache is older than what is there"
    assert library(fake(tmp_path / "c", {"/usr/lib64/libibverbs.so.1": ""})) == "/usr/lib64/libibverbs.so.1"
    mine = fake(tmp_path / "d", {path: "", "/x/libibverbs.so.1": ""}, {"LD_LIBRARY_PATH": ":rel:/x"})
    assert library(mine) == "/x/libibverbs.so.1"
    assert library(fake(tmp_path / "e", {"/etc/ld.so.cache": b"\xff\x00" * 50})) == ""


# ---------------------------------------------------------------- GPUDirect


def test_peer_memory_at_its_three_places(tmp_path: Path) -> None:
    field = "network.gpu_direct"
    files: dict[str, str | bytes | Link] = {
        "/sys/module/nvidia_peermem/version": "580.95.05\n",
        "/sys/kernel/mm/memory_peers/nv_mem_nc/version": b"\x00\xff",
        "/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05\n",
    }
    assert read_gpu_direct(fake(tmp_path / "a", files))[field].value == GpuDirect(
        nv_peer_mem="", nv_peer_mem_nc="present", nvidia_peermem="580.95.05", open_kernel_module=True
    )
    closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01\n"
    bare = fake(tmp_path / "b", {"/sys/module/": "", "/proc/driver/nvidia/version": closed})
    assert read_gpu_direct(bare)[field].value == GpuDirect(open_kernel_module=False)
    assert read_gpu_direct(fake(tmp_path / "c", {"/proc/": ""}))[field].reason == "/sys is not mounted here"


# ---------------------------------------------------------------- PCI paths

BUS = "/sys/bus/pci/devices"


def pci(bus_id: str, device_class: str, target: str, vendor: str = "0x15b3") -> dict[str, str | bytes | Link]:
    real = f"/sys/devices/{target}"
    return {
        f"{BUS}/{bus_id}": Link(f"../../../devices/{target}"),
        f"{real}/class": device_class + "\n",
        f"{real}/vendor": vendor + "\n",
        f"{real}/device": "0x1021\n",
        f"{real}/numa_node": "1\n",
    }


def test_where_devices_sit(tmp_path: Path) -> None:
    switch = "pci0000:17/0000:17:01.0/0000:18:00.0/0000:19:00.0"
    files = pci("0000:1a:00.0", "0x020700", f"{switch}/0000:1a:00.0")
    files |= pci("0000:1b:00.0", "0x030200", "pci0000:17/0000:17:02.0/0000:1b:00.0", "0x10de")
    files |= pci("0000:00:1f.0", "0x060100", "pci0000:00/0000:00:1f.0", "0x8086")  # neither GPU nor NIC
    found = read_paths(fake(tmp_path, files))["network.pci_paths"].value
    assert found == {
        "0000:1a:00.0": PciPath("0000:1a:00.0", ("0000:19:00.0", "0000:18:00.0", "0000:17:01.0"), "pci0000:17", 1),
        "0000:1b:00.0": PciPath("0000:1b:00.0", ("0000:17:02.0",), "pci0000:17", 1),
    }


def test_paths_of_hypervisors_and_of_vmd() -> None:
    hyper_v = "../../../devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/47505500-0001/pci0001:00/0001:00:00.0"
    assert path_of("0001:00:00.0", hyper_v, 0) == PciPath("0001:00:00.0", (), "pci0001:00", 0)
    vmd = "../../../devices/pci0000:c0/0000:c0:00.5/pci10001:00/10001:00:01.0/10001:01:00.0"
    assert path_of("10001:01:00.0", vmd, 0).upstream == ("10001:00:01.0", "0000:c0:00.5")
    assert path_of("0000:00:01.0", "", -1) == PciPath("0000:00:01.0")


@given(st.text(max_size=200))
def test_any_link_is_a_path(target: str) -> None:
    assert path_of("0000:00:01.0", target, 0).bus_id == "0000:00:01.0"


def test_no_pci_at_all(tmp_path: Path) -> None:
    assert read_paths(fake(tmp_path / "a", {"/sys/bus/virtio/": ""}))["network.pci_paths"].value == {}
    assert read_paths(fake(tmp_path / "b", {"/dev/": ""}))["network.pci_paths"].reason == "/sys is not mounted here"
