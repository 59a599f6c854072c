"""The NVML reader in a real child process, against a fake libnvidia-ml.so.1."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudoctor import active
from gpudoctor.knowledge import pci_address
from gpudoctor.read import nvidia, nvml_processes
from gpudoctor.read.nvml_calls import explain
from gpudoctor.read.system import System
from gpudoctor.snapshot import (
    EccCounts,
    Fabric,
    Gpu,
    Nvidia,
    NvLink,
    PeerAccess,
    Reading,
    RemappedRows,
    RetiredPages,
)
from tests.lab import machines
from tests.lab.nvidia import SOURCES, Card, Machine
from tests.lab.reading import blocked_reply, nvml_of, nvml_reply

MIB = machines.MIB
HOST_NAMESPACE = "pid:[4026531836]"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A /proc and /sys in which eight GPUs have a NUMA node."""
    for index in range(8):
        folder = tmp_path / f"sys/bus/pci/devices/0000:{0x1B + 0x10 * index:02x}:00.0"
        folder.mkdir(parents=True)
        (folder / "numa_node").write_text(f"{index // 4}\n")
    write(tmp_path / "sys/devices/system/cpu/possible", "0-127\n")
    write(tmp_path / "proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue\n")
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    (tmp_path / "proc/self/ns/pid").symlink_to(HOST_NAMESPACE)
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def readings(gpu: Gpu) -> dict[str, Reading[Any]]:
    return {name: getattr(gpu, name) for name in gpu.__struct_fields__ if name != "index"}


def kinds(gpu: Gpu) -> set[str | None]:
    return {reading.missing_kind for reading in readings(gpu).values()}


@pytest.mark.parametrize("name", machines.HEALTHY)
def test_reads_every_fact_of_a_healthy_machine(name: str, root: Path) -> None:
    machine = machines.HEALTHY[name]()
    found = nvml_of(machine, root)
    assert found.init_code.value == 0
    assert found.driver_version.value == machine.driver
    assert found.nvml_version.value == f"{machine.cuda // 1000}.{machine.driver}"
    assert found.cuda_version.value == (machine.cuda // 1000, machine.cuda % 1000 // 10)
    assert found.kernel_module_version.value == "580.95.05"
    assert [gpu.index for gpu in found.gpus.value] == list(range(len(machine.gpus)))
    for gpu, card in zip(found.gpus.value, machine.gpus, strict=True):
        assert gpu.name.value == card["name"]
        assert gpu.uuid.value == card["uuid"]
        unread = {
            field: reading for field, reading in readings(gpu).items() if reading.missing_kind not in (None, "absent")
        }
        assert unread == {}


def test_gives_every_number_of_an_h100_in_its_unit(root: Path) -> None:
    gpu = nvml_of(machines.hgx_h100(), root).gpus.value[5]
    link: dict[str, Any] = {
        "remote_pci_bus_id": "00000000:07:00.0",
        "replay_errors": 0,
        "recovery_errors": 0,
        "crc_errors": 0,
    }
    expected: dict[str, Any] = {
        "name": "NVIDIA H100 80GB HBM3",
        "uuid": machines.uuid(5),
        "serial": "1654020000005",
        "pci_bus_id": "00000000:6b:00.0",
        "minor_number": 5,
        "compute_capability": (9, 0),
        "vbios_version": "96.00.89.00.01",
        "gsp_firmware_version": "580.95.05",
        "numa_node": 1,
        "cpu_affinity": tuple(range(56, 112)),
        "memory_total_bytes": 81559 * MIB,
        "memory_used_bytes": 4 * MIB,
        "memory_free_bytes": (81559 - 4 - 548) * MIB,
        "memory_reserved_bytes": 548 * MIB,
        "utilization_gpu_percent": 0,
        "utilization_memory_percent": 0,
        "processes": (),
        "temperature_celsius": 32,
        "temperature_slowdown_celsius": 87,
        "temperature_shutdown_celsius": 92,
        "memory_temperature_celsius": 40,
        "memory_temperature_max_celsius": 95,
        "power_draw_watts": 71.51,
        "power_limit_watts": 700.0,
        "power_limit_default_watts": 700.0,
        "clock_sm_mhz": 345,
        "clock_sm_max_mhz": 1980,
        "clock_memory_mhz": 2619,
        "clock_memory_max_mhz": 2619,
        "clock_event_reasons": 1,
        "performance_state": 0,
        "ecc_mode": True,
        "ecc_mode_pending": True,
        "ecc_volatile": EccCounts(0, 0),
        "ecc_aggregate": EccCounts(0, 0),
        "sram_threshold_exceeded": False,
        "remapped_rows": RemappedRows(0, 0, False, False),
        "retired_pages": None,
        "recovery_action": 0,
        "inforom_valid": True,
        "pcie_generation": 5,
        "pcie_generation_max": 5,
        "pcie_width": 16,
        "pcie_width_max": 16,
        "pcie_replays": 0,
        "persistence_mode": True,
        "compute_mode": "default",
        "display_active": False,
        "mig_mode": False,
        "mig_mode_pending": False,
        "mig_devices": (),
        "nvlinks": tuple(NvLink(number, True, "switch", **link) for number in range(18)),
        "fabric": Fabric(3, 0, 0),
    }
    assert {name: reading.value_or(None) for name, reading in readings(gpu).items()} == expected


SICK: list[tuple[str, dict[str, str | int | None], dict[str, Any]]] = [
    ("rows", {"remapped_rows": "3 1 1 1"}, {"remapped_rows": RemappedRows(3, 1, True, True)}),
    ("sram", {"sram_exceeded": 1}, {"sram_threshold_exceeded": True}),
    ("inforom", {"inforom": 0}, {"inforom_valid": False}),
    ("recovery", {"recovery_action": 2}, {"recovery_action": 2}),
    (
        "ecc",
        {"ecc_uncorrected": 7, "ecc_corrected_ever": 9},
        {"ecc_volatile": EccCounts(0, 7), "ecc_aggregate": EccCounts(9, 0)},
    ),
    ("ecc pending", {"ecc_pending": 0}, {"ecc_mode": True, "ecc_mode_pending": False}),
    (
        "pages",
        {"pages_single_bit": 12, "pages_double_bit": 2, "pages_pending": 1},
        {"retired_pages": RetiredPages(12, 2, True)},
    ),
    ("mode", {"compute_mode": 3}, {"compute_mode": "exclusive-process"}),
    ("fabric", {"fabric_state": 3, "fabric_status": 999, "fabric_health": 5}, {"fabric": Fabric(3, 999, 5)}),
    ("clocks", {"clock_events": 0x8000000000000048}, {"clock_event_reasons": 0x8000000000000048}),
    ("memory", {"memory_used": 81011 * MIB}, {"memory_used_bytes": 81011 * MIB, "memory_free_bytes": 0}),
]


def test_gives_what_is_wrong_with_a_gpu(root: Path) -> None:
    """One machine on which every GPU has another fault."""
    machine = machines.hgx_h100(len(SICK))
    for index, (_, facts, _) in enumerate(SICK):
        machine = machine.but_gpu(index, **facts)
    for gpu, (name, _, expected) in zip(nvml_of(machine, root).gpus.value, SICK, strict=True):
        assert {field: getattr(gpu, field).value_or(None) for field in expected} == expected, name


def test_links_that_are_down_or_lead_to_a_gpu_are_told_apart() -> None:
    facts: dict[str, str | int] = {"nvlinks": 3, "nvlink.1.active": 0, "nvlink.2.remote": 0, "nvlink.2.crc": 17}
    machine = machines.hgx_h100(1).but_gpu(0, **facts)
    up, down, to_gpu = nvml_of(machine).gpus.value[0].nvlinks.value
    assert (up.active, up.remote, up.crc_errors) == (True, "switch", 0)
    assert down == NvLink(1, False)
    assert (to_gpu.active, to_gpu.remote, to_gpu.crc_errors) == (True, "gpu", 17)


def test_error_counters_that_a_gpu_does_not_offer_are_unknown_and_not_zero() -> None:
    facts = dict.fromkeys(("nvlink.replay", "nvlink.recovery", "nvlink.crc"))
    link = nvml_of(machines.hgx_h100(1).but_gpu(0, **facts)).gpus.value[0].nvlinks.value[0]
    assert (link.replay_errors, link.recovery_errors, link.crc_errors) == (None, None, None)


def test_peer_access_of_every_pair() -> None:
    machine = machines.four_rtx_4090()
    machine = replace(machine, facts={**machine.facts, "p2p.read.0.1": 0, "p2p.nvlink.0.1": 9})
    peers = nvml_of(machine).peers.value
    assert len(peers) == 12
    assert peers[0] == PeerAccess(0, 1, "ok", "unknown")
    assert peers[1] == PeerAccess(0, 2, "chipset-not-supported", "not-supported")
    assert nvml_of(machines.one_h200()).peers.missing_kind == "absent"


def test_mig_devices_and_what_their_gpu_no_longer_says() -> None:
    machine = machines.hgx_a100_with_mig().call("nvmlDeviceGetMemoryInfo_v2", "fail:4", gpu=2)
    gpus = nvml_of(machine).gpus.value
    whole, cut = gpus[0], gpus[2]
    assert (whole.mig_mode.value, whole.mig_devices.value) == (False, ())
    assert cut.mig_mode.value
    assert cut.utilization_gpu_percent.missing_kind == "absent"
    assert cut.memory_used_bytes.missing_kind == "denied"
    devices = cut.mig_devices.value
    assert [(device.index, device.gpu_instance.value) for device in devices] == [(0, 1), (1, 2), (3, 7)]
    assert devices[2].uuid.value == machines.uuid(16 * 2 + 3, "MIG")
    assert devices[2].memory_total_bytes.value == 19968 * MIB
    assert [device.compute_instance.value for device in gpus[5].mig_devices.value] == [0, 1]


def test_an_older_driver_is_asked_in_its_own_words() -> None:
    """Driver 470 lacks what came with 510 and later."""
    machine = machines.two_t4(driver="470.256.02")
    for function in (
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetGraphicsRunningProcesses_v3",
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetGspFirmwareVersion",
        "nvmlSystemGetCudaDriverVersion_v2",
    ):
        machine = machine.call(function, "fail:13")
    machine = machine.but_gpu(0, **{"process.0": "12345 -1"})
    found = nvml_of(machine)
    gpu = found.gpus.value[0]
    assert found.cuda_version.value == (13, 0)
    assert gpu.memory_used_bytes.value == (1 + 431) * MIB, "the first version counts reserved memory as used"
    assert gpu.memory_reserved_bytes.missing_kind == "failed"
    assert gpu.clock_event_reasons.value == 1
    assert gpu.gsp_firmware_version.reason == "not offered by this driver"
    assert gpu.recovery_action.missing_kind == "absent"
    assert [(process.pid, process.memory_bytes) for process in gpu.processes.value] == [(12345, None)]


def test_a_driver_that_drops_the_old_temperature_call_is_asked_by_the_new() -> None:
    machine = machines.one_h200().call("nvmlDeviceGetTemperature", "fail:13")
    assert nvml_of(machine).gpus.value[0].temperature_celsius.value == 31


def test_a_lost_gpu_keeps_its_place_and_costs_no_other_gpu(root: Path) -> None:
    found = nvml_of(machines.hgx_h100().lost(3), root)
    lost = found.gpus.value[3]
    assert lost.index == 3
    assert kinds(lost) == {"lost"}
    assert lost.pci_bus_id.reason == "the GPU is lost (NVML error 15, GpuIsLost)"
    assert lost.pci_bus_id.source == "nvmlDeviceGetHandleByIndex GPU 3"
    assert all(kinds(gpu) == {None, "absent"} for gpu in found.gpus.value if gpu.index != 3)
    peers = {(peer.from_gpu, peer.to_gpu): peer.read for peer in found.peers.value}
    assert (peers[0, 1], peers[0, 3], peers[3, 0]) == ("ok", "unknown", "unknown")


def test_a_gpu_that_may_not_be_opened_is_denied() -> None:
    machine = machines.hgx_h100(2).call("nvmlDeviceGetHandleByIndex_v2", "fail:4", gpu=1)
    found = nvml_of(machine)
    assert kinds(found.gpus.value[1]) == {"denied"}
    assert found.peers.reason == "no permission (NVML error 4, NoPermission)"


@pytest.mark.parametrize(
    ("machine", "code", "kind", "words"),
    [
        (machines.driver_mismatch(), 18, "failed", "differ in version (NVML error 18, LibRmVersionMismatch)"),
        (machines.no_permission(), 4, "denied", "no permission"),
        (machines.driver_not_loaded(), 9, "failed", "the kernel driver is not loaded"),
        (machines.hgx_h100().call("nvmlInit", "fail:12"), 12, "failed", "libnvidia-ml.so.1 could not be loaded"),
        (machines.hgx_h100().call("nvmlInit", "fail:13"), 13, "failed", "not offered by this driver"),
        (machines.hgx_h100().call("nvmlInit", "fail:15"), 15, "lost", "the GPU is lost"),
        (machines.hgx_h100().call("nvmlInit", "fail:4711"), 4711, "failed", "NVML error 4711"),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else "",
)
def test_a_driver_that_does_not_start(machine: Machine, code: int, kind: str, words: str, root: Path) -> None:
    found = nvml_of(machine, root)
    assert found.init_code.value == code
    assert found.kernel_module_version.value == "580.95.05", "/proc is read anyway"
    for reading in (found.gpus, found.driver_version, found.peers, found.cuda_version):
        assert reading.missing_kind == kind
        assert words in reading.reason


def test_no_gpus_and_garbage_counts() -> None:
    assert nvml_of(Machine(())).gpus.value == ()
    found = nvml_of(machines.hgx_h100(1).call("nvmlDeviceGetCount_v2", "lie"))
    assert found.gpus.reason == "answered with 4126537205 GPUs"
    assert found.driver_version.is_read
    denied = nvml_of(machines.hgx_h100(1).call("nvmlDeviceGetCount_v2", "fail:999"))
    assert denied.gpus.reason == denied.peers.reason == "NVML error 999, Unknown"


# ---- every function in turn ----

NOT_ASKED = {"nvmlDeviceGetHandleByUUID"}
"""For torch; the reader opens GPUs by index."""
SECOND_CHOICE = {
    "nvmlDeviceGetTemperatureV",
    "nvmlDeviceGetCurrentClocksThrottleReasons",
    "nvmlDeviceGetGpuFabricInfo",
    "nvmlDeviceGetComputeRunningProcesses_v2",
    "nvmlDeviceGetGraphicsRunningProcesses_v2",
}
"""Asked only where the newer form is not offered."""
FALLS_BACK = {
    "nvmlDeviceGetTemperature",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetGpuFabricInfoV",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
}
"""Have an older form, which is asked when the driver does not offer them."""
INSIDE = {
    "nvmlDeviceGetNvLinkRemoteDeviceType",
    "nvmlDeviceGetNvLinkErrorCounter",
    "nvmlDeviceGetNvLinkRemotePciInfo_v2",
    "nvmlDeviceGetGpuInstanceId",
    "nvmlDeviceGetComputeInstanceId",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetMaxMigDeviceCount",
    "nvmlDeviceGetMigDeviceHandleByIndex",
}
"""What they give stands inside a link or a MIG device, which keeps the rest."""


def fake_functions() -> list[str]:
    """The functions of the fake library that answer about one GPU."""
    names = set(re.findall(r"\b(nvmlDevice[A-Z]\w+)\b", (SOURCES / "nvml.c").read_text()))
    return sorted(names - NOT_ASKED - {"nvmlDeviceGetCount_v2"})


def sweep(order: str) -> tuple[dict[str, Gpu], Gpu, Nvidia]:
    """A machine on which every function misbehaves on a GPU of its own: function -> its GPU; a healthy GPU; all."""
    functions = fake_functions()
    whole: Card = {
        "pages_single_bit": 1,
        "pages_double_bit": 0,
        "pages_pending": 0,
        "nvlinks": 2,
        "pci": "00000000:1B:00.0",
    }
    mig: Card = {
        "mig_mode": 1,
        "mig.4.uuid": machines.uuid(99, "MIG"),
        "mig.4.gi": 1,
        "mig.4.ci": 0,
        "mig.4.name": "MIG",
    }
    card: Card = {
        **machines.h100(0),
        **whole,
        **mig,
        "mig.4.memory": 5 * MIB,
        "mig.4.memory_used": MIB,
        "process.0": "99 1",
    }
    machine = Machine(tuple(card for _ in range(len(functions) + 1)), facts={"p2p.read": 0, "p2p.nvlink": 0})
    for index, function in enumerate(functions):
        machine = machine.call(function, order, gpu=index)
    found = nvml_of(machine)
    *sick, healthy = found.gpus.value
    return dict(zip(functions, sick, strict=True)), healthy, found


@pytest.mark.parametrize(("code", "kind"), [(3, "absent"), (13, "absent"), (999, "failed"), (15, "lost")])
def test_each_function_that_fails_costs_its_own_facts(code: int, kind: str) -> None:
    sick, healthy, found = sweep(f"fail:{code}")
    assert kinds(healthy) == {None, "failed"}  # no NUMA node without /sys
    assert found.peers.is_read
    for function, gpu in sick.items():
        changed = changed_from(healthy, gpu)
        if function == "nvmlDeviceGetHandleByIndex_v2":
            assert kinds(gpu) == {kind}
        elif function in SECOND_CHOICE | {"nvmlDeviceGetP2PStatus"}:
            assert changed == {}, function
        elif function in FALLS_BACK and code == 13:
            assert all(reading.missing_kind in (None, "failed") for reading in changed.values()), function
        elif function in INSIDE:
            assert set(changed) <= {"nvlinks", "mig_devices"} and changed, function
        else:
            lost = [reading for reading in changed.values() if reading.missing_kind == kind]
            assert lost and len(changed) <= 5, function
            calls = {reading.source.partition(" ")[0] for reading in lost if not reading.source.startswith("/sys")}
            assert all(function.startswith(call) for call in calls), function


def without_gpu(reading: Reading[Any]) -> bytes:
    """The reading without the number of its GPU."""
    return re.sub(rb"GPU \d+", b"GPU", msgspec.json.encode(reading))


def changed_from(healthy: Gpu, gpu: Gpu) -> dict[str, Reading[Any]]:
    pairs = ((name, reading, getattr(healthy, name)) for name, reading in readings(gpu).items())
    return {name: reading for name, reading, usual in pairs if without_gpu(reading) != without_gpu(usual)}


def test_garbage_from_any_function_is_a_value_or_a_reason() -> None:
    """Bytes 0xF5 all over: no UTF-8, no PCI address, numbers beyond all measure."""
    sick, healthy, _ = sweep("lie")
    for field in ("name", "uuid", "serial", "vbios_version", "gsp_firmware_version", "pci_bus_id"):
        garbled = [getattr(gpu, field) for gpu in sick.values() if not getattr(gpu, field).is_read]
        assert [reading.reason for reading in garbled] == ["answered with bytes that are no text"], field
    assert sick["nvmlDeviceGetComputeMode"].compute_mode.reason == "answered with unknown compute mode 4126537205"
    assert sick["nvmlDeviceGetUtilizationRates"].utilization_gpu_percent.value == 0xF5F5F5F5
    assert len(sick["nvmlDeviceGetNvLinkState"].nvlinks.value) == 64, "a driver that knows no end of links"
    for function, gpu in sick.items():
        assert len(changed_from(healthy, gpu)) <= 6, function


# ---- hanging and crashing ----


def test_nvml_that_blocks_in_init_is_named() -> None:
    reply = blocked_reply(machines.hgx_h100().call("nvmlInit", "block"), "gpudoctor.read.nvidia", {b'"nvmlInit"': 1})
    found = nvidia.assemble(reply)
    for reading in (found.init_code, found.gpus, found.driver_version, found.peers):
        assert reading.missing_kind == "timeout"
        assert re.fullmatch(r"nvmlInit did not return within \d+ s", reading.reason)


def test_one_gpu_that_blocks_costs_only_its_own_facts() -> None:
    machine = machines.hgx_h100().call("nvmlDeviceGetEccMode", "block", gpu=3)
    finished_others = {b'"over":true': 9, b'"nvmlDeviceGetEccMode GPU 3"': 1}  # 7 GPUs, the pairs, the driver
    found = nvidia.assemble(blocked_reply(machine, "gpudoctor.read.nvidia", finished_others))
    stuck = found.gpus.value[3]
    assert stuck.memory_total_bytes.value == 81559 * MIB, "what was read before it blocked is kept"
    assert stuck.ecc_mode.missing_kind == stuck.processes.missing_kind == "timeout"
    assert re.fullmatch(r"nvmlDeviceGetEccMode GPU 3 did not return within \d+ s", stuck.processes.reason)
    for gpu in found.gpus.value:
        assert gpu.index == 3 or (gpu.ecc_mode.value, gpu.processes.value) == (True, ())
    assert len(found.peers.value) == 56
    assert found.driver_version.is_read


def test_a_gpu_whose_handle_blocks_is_still_there() -> None:
    machine = machines.hgx_h100(2).call("nvmlDeviceGetHandleByIndex_v2", "block", gpu=1)
    reply = blocked_reply(
        machine, "gpudoctor.read.nvidia", {b'"over":true': 2, b'HandleByIndex GPU 1"': 1, b'HandleByIndex"': 2}
    )
    found = nvidia.assemble(reply)
    assert kinds(found.gpus.value[1]) == {"timeout"}
    assert found.gpus.value[0].name.is_read
    assert "nvmlDeviceGetHandleByIndex did not return" in found.peers.reason


def test_a_crash_in_the_driver_is_named() -> None:
    reply = nvml_reply(machines.hgx_h100(1).call("nvmlDeviceGetFieldValues", "crash"))
    found = nvidia.assemble(reply)
    gpu = found.gpus.value[0]
    assert gpu.name.is_read
    assert gpu.processes.missing_kind == "failed"
    assert "the process was killed by SIGSEGV during nvmlDeviceGetFieldValues GPU 0" in gpu.processes.reason


def test_a_crash_in_init_is_named() -> None:
    found = nvidia.assemble(nvml_reply(machines.hgx_h100(1).call("nvmlInit", "crash")))
    assert found.gpus.reason == found.init_code.reason == "the process was killed by SIGSEGV during nvmlInit"


# ---- processes ----


def process(root: Path, pid: int, command: str, *, parent: int = 1, name: str = "python") -> None:
    write(root / f"proc/{pid}/cmdline", command)
    write(root / f"proc/{pid}/stat", f"{pid} ({name}) S {parent} 1 1 0")
    write(root / f"proc/{pid}/comm", f"{name}\n")


def test_processes_have_a_user_and_the_beginning_of_their_command(root: Path) -> None:
    process(root, 4001, "python\0train.py\0--api-key=hunter2\0--epochs\0")
    process(root, 4002, "", name="kworker (nv) x")
    process(root, 4003, "/opt/keys/train\0" + "x" * 300, parent=os.getpid())
    write(root / "etc/passwd", f"root:x:0:0::/root:/bin/sh\nalice:x:{os.getuid()}:1::/:/bin/sh\n")
    facts = {"process.0": f"4001 {7 * MIB}", "process.1": "4002 -1", "process.2": "4003 0", "process.3": "4004 0"}
    machine = machines.hgx_h100(1).but_gpu(0, **facts, **{"graphics.0": f"4001 {7 * MIB}", "graphics.1": "3999 1"})
    found = nvml_of(machine, root).gpus.value[0].processes.value
    assert [(one.pid, one.kind) for one in found] == [
        (3999, "graphics"),
        (4001, "compute"),
        (4002, "compute"),
        (4003, "compute"),
        (4004, "compute"),
    ]
    by_pid = {one.pid: one for one in found}
    assert by_pid[4001].command.value == "python train.py"
    assert by_pid[4001].user.value == ("root" if os.getuid() == 0 else "alice")
    assert (by_pid[4001].memory_bytes, by_pid[4002].memory_bytes) == (7 * MIB, None)
    assert by_pid[4002].command.value == "[kworker (nv) x]"
    assert len(by_pid[4003].command.value) == 120
    assert by_pid[4004].user.missing_kind == "failed", "it has ended: unknown, not absent"
    assert [one.pid for one in found if one.is_own] == [4003]


def test_host_pids_seen_from_a_container_are_said_to_be(root: Path) -> None:
    (root / "proc/self/ns/pid").unlink()
    (root / "proc/self/ns/pid").symlink_to("pid:[4026532201]")
    process(root, 4001, "an\0innocent\0namesake\0", parent=os.getpid())
    machine = machines.hgx_h100(1).but_gpu(0, **{"process.0": "4001 5"})
    (found,) = nvml_of(machine, root).gpus.value[0].processes.value
    assert found.user.reason == found.command.reason == "host pid; not visible from this PID namespace"
    assert not found.is_own


@pytest.mark.parametrize(
    ("command", "kept"),
    [
        ("python\0-m\0torch.distributed.run\0train.py\0", "python -m torch.distributed.run"),
        ("env\0HF_TOKEN=hf_abc\0python\0", "env"),
        ("./train\0--wandb-api-key\0abc\0", "./train"),
        ("/home/author/venv/bin/python\0monkey.py\0", "/home/author/venv/bin/python monkey.py"),
        ("sh\0-c\0echo\x1b[31m\0", "sh -c echo?[31m"),
    ],
)
def test_a_command_ends_before_its_first_secret(command: str, kept: str, tmp_path: Path) -> None:
    process(tmp_path, 7, command)
    assert nvml_processes.command_of(System(tmp_path), 7) == kept


# ---- parsers ----


@given(st.text())
def test_any_text_is_a_pci_address_or_no_pci_address(text: str) -> None:
    try:
        found = pci_address.normalised(text)
    except ValueError:
        return
    assert re.fullmatch(r"[0-9a-f]{8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", found)
    assert pci_address.normalised(found) == found
    assert pci_address.normalised(pci_address.in_sysfs(found)) == found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("00000000:5D:00.0", "00000000:5d:00.0"),
        ("0000:5d:00.0", "00000000:5d:00.0"),
        ("5D:00", "00000000:5d:00.0"),
        ("00010000:01:1f.7", "00010000:01:1f.7"),
    ],
)
def test_pci_addresses_have_one_form(text: str, expected: str) -> None:
    assert pci_address.normalised(text) == expected


def test_sysfs_widens_only_large_domains() -> None:
    assert pci_address.in_sysfs("00000000:5d:00.0") == "0000:5d:00.0"
    assert pci_address.in_sysfs("00010000:5d:00.0") == "10000:5d:00.0"


@given(st.text())
def test_any_stat_line_has_a_parent_or_none(text: str) -> None:
    try:
        assert isinstance(nvml_processes.parent_of(text), int)
    except ValueError:
        pass


def test_a_process_name_cannot_forge_its_parent() -> None:
    assert nvml_processes.parent_of("12 (evil) S 1 (x) S 99 12 12 0") == 99


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12\nGCC version: gcc 12.3.0",
            "535.183.01",
        ),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build", "570.86.15"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.65.06  Release Build", "580.65.06"),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  390.48  Thu Mar 22", "390.48"),
    ],
)
def test_the_kernel_modules_version(text: str, version: str, tmp_path: Path) -> None:
    write(tmp_path / "proc/driver/nvidia/version", text)
    assert nvidia.kernel_module_version(System(tmp_path)).value == version


def test_a_kernel_module_that_does_not_say_its_version(tmp_path: Path) -> None:
    assert nvidia.kernel_module_version(System(tmp_path)).missing_kind == "absent"
    write(tmp_path / "proc/driver/nvidia/version", "GCC version: gcc 12.3.0")
    assert nvidia.kernel_module_version(System(tmp_path)).missing_kind == "failed"


@pytest.fixture(scope="module")
def whole_reply() -> active.Reply:
    return nvml_reply(machines.hgx_h100(2))


def test_a_reply_cut_off_anywhere_is_still_a_section(whole_reply: active.Reply) -> None:
    """As after a SIGKILL at any moment: what was said before stands, the rest has a reason, nothing is invented."""
    complete = nvidia.assemble(whole_reply)
    lines = whole_reply.output.split(b"\n")
    for kept in range(0, len(lines), 7):
        output = b"\n".join(lines[:kept]) + b"\n" + lines[kept][: len(lines[kept]) // 2]
        found = nvidia.assemble(whole_reply._replace(output=output, return_code=None, timed_out=True))
        for name in ("init_code", "driver_version", "peers"):
            reading = getattr(found, name)
            assert reading == getattr(complete, name) or reading.missing_kind == "timeout", name
        for gpu in found.gpus.value_or(()):
            for name, reading in readings(gpu).items():
                known = getattr(complete.gpus.value[gpu.index], name)
                assert reading == known or reading.missing_kind == "timeout", name


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.floats(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["value", "missing", "source", "name"]), inner)
    ),
    max_leaves=6,
)
MESSAGES = st.dictionaries(st.sampled_from(["scope", "call", "count", "gpu", "fields", "over"]), JSON)


@settings(deadline=None)
@given(st.lists(MESSAGES, max_size=5), st.binary(max_size=40))
def test_no_reply_makes_assemble_raise(said: list[dict[str, Any]], noise: bytes) -> None:
    output = b"".join(active.MARK + json.dumps(message).encode() + b"\n" for message in said) + noise
    reply = active.Reply("nvidia", output, "", 0, False, False, 1.0, 1)
    assert isinstance(nvidia.assemble(reply), Nvidia)


def test_a_reader_that_cannot_be_imported_is_a_reason() -> None:
    trace = "Traceback (most recent call last):\nModuleNotFoundError: No module named 'pynvml'\n"
    found = nvidia.assemble(active.Reply("nvidia", b"", trace, 1, False, False, 0.1, 1))
    assert "No module named 'pynvml'" in found.gpus.reason
    assert found.gpus.missing_kind == "failed"


def test_errors_have_names_and_kinds() -> None:
    assert explain(3).kind == explain(13).kind == "absent"
    assert explain(4).kind == "denied"
    assert explain(15).kind == explain(28).kind == "lost"
    assert explain(10).kind == "timeout"
    assert explain(16).reason == "NVML error 16, ResetRequired"


def test_the_parent_does_not_import_nvml() -> None:
    """Every command imports this module, and must start where nvidia-ml-py cannot be imported."""
    code = "import sys, gpudoctor.read.nvidia, gpudoctor.read.cuda; sys.exit('pynvml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_torch_sees_the_same_fake_machine(environment_on: Callable[..., dict[str, str]]) -> None:
    """torch's own NVML code counts the GPUs of the fake: it is an oracle where there is no GPU."""
    pytest.importorskip("torch")
    code = (
        "import os, torch\n"
        "for value in (None, '2,1', '7,8', 'GPU-9e8d3333', ''):\n"
        "    os.environ.pop('CUDA_VISIBLE_DEVICES', None)\n"
        "    if value is not None: os.environ['CUDA_VISIBLE_DEVICES'] = value\n"
        "    print(torch.cuda._device_count_nvml(), end=' ')\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env=environment_on(machines.hgx_h100()),
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["8", "2", "1", "1", "0"], done.stderr
