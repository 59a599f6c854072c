"""The NVML reader in a real child process, against a fake libnvidia-ml.so.1: what it reads."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpudoctor.active import ChildReply
from gpudoctor.read import nvidia
from gpudoctor.read.nvml_calls import explain
from gpudoctor.read.system import System
from gpudoctor.snapshot import (
    EccCounts,
    Fabric,
    NvLink,
    PeerAccess,
    RemappedRows,
    RetiredPages,
)
from tests.lab import machines
from tests.lab.nvidia import Machine
from tests.lab.reading import kinds, nvml_of, readings, write

MIB = machines.MIB


@pytest.mark.parametrize("name", machines.HEALTHY)
def test_reads_every_fact_of_a_healthy_machine(name: str, gpu_root: Path) -> None:
    machine = machines.HEALTHY[name]()
    found = nvml_of(machine, gpu_root)
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


def test_gives_every_number_of_an_h100_in_its_unit(gpu_root: Path) -> None:
    gpu = nvml_of(machines.hgx_h100(), gpu_root).gpus.value[5]
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
        "fan_percent": None,
        "ecc_mode": True,
        "ecc_mode_pending": True,
        "ecc_volatile": EccCounts(0, 0),
        "ecc_aggregate": EccCounts(0, 0),
        "sram_threshold_exceeded": False,
        "remapped_rows": RemappedRows(0, 0, False, False),
        "retired_pages": None,
        "recovery_action": 0,
        "inforom_valid": True,
        "vgpu_licence": None,
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
    ("licence", {"vgpu_licensed": 0}, {"vgpu_licence": "Unlicensed"}),
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


def test_gives_what_is_wrong_with_a_gpu(gpu_root: Path) -> None:
    """One machine on which every GPU has another fault."""
    machine = machines.hgx_h100(len(SICK))
    for index, (_, facts, _) in enumerate(SICK):
        machine = machine.but_gpu(index, **facts)
    for gpu, (name, _, expected) in zip(nvml_of(machine, gpu_root).gpus.value, SICK, strict=True):
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


def test_the_distance_of_every_pair_that_tells_it() -> None:
    machine = machines.four_rtx_4090()
    machine = replace(machine, facts={**machine.facts, "level": 30, "level.0.1": 10, "level.2.3": 7})
    levels = {(level.gpu, level.other): level.level for level in nvml_of(machine).topology.value}
    assert levels == {(0, 1): "single"} | dict.fromkeys([(0, 2), (0, 3), (1, 2), (1, 3)], "hostbridge")
    assert nvml_of(machines.four_rtx_4090()).topology.missing_kind == "absent"
    assert nvml_of(machines.one_h200()).topology.missing_kind == "absent"


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


OLD_BINDING = """
import importlib.machinery, importlib.util, sys
folders = [folder for folder in sys.path if folder != {own!r}]
specification = importlib.machinery.PathFinder.find_spec("pynvml", folders)
real = importlib.util.module_from_spec(specification)
specification.loader.exec_module(real)
globals().update({{name: value for name, value in vars(real).items() if name not in {removed!r}}})
def nvmlSystemGetDriverVersion():
    return real.nvmlSystemGetDriverVersion().encode()
"""


def test_an_older_nvidia_ml_py_costs_only_what_it_does_not_know(tmp_path: Path) -> None:
    """As 12.535: without the functions that came later, and with bytes where newer ones give text."""
    removed = {
        "nvmlDeviceGetTemperatureV",
        "nvmlDeviceGetGpuFabricInfoV",
        "nvmlDeviceGetSramEccErrorStatus",
        "c_nvmlEccSramErrorStatus_v1_t",
        "nvmlDeviceGetComputeRunningProcesses_v2",
        "nvmlDeviceGetCurrentClocksEventReasons",
    }
    write(tmp_path / "pynvml.py", OLD_BINDING.format(own=str(tmp_path), removed=removed))
    found = nvml_of(machines.one_h200(), PYTHONPATH=str(tmp_path))
    gpu = found.gpus.value[0]
    assert found.driver_version.value == "580.95.05"
    assert gpu.fabric.value == Fabric(3, 0, None)
    assert gpu.clock_event_reasons.value == 1
    assert gpu.processes.value == ()
    assert gpu.sram_threshold_exceeded.missing_kind == "failed", "it is not the GPU that lacks it"
    assert "the installed nvidia-ml-py does not know nvmlDeviceGetSramEccErrorStatus" in (
        gpu.sram_threshold_exceeded.reason
    )


def test_a_lost_gpu_keeps_its_place_and_costs_no_other_gpu(gpu_root: Path) -> None:
    found = nvml_of(machines.hgx_h100().lost(3), gpu_root)
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
def test_a_driver_that_does_not_start(machine: Machine, code: int, kind: str, words: str, gpu_root: Path) -> None:
    found = nvml_of(machine, gpu_root)
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


def test_errors_have_names_and_kinds() -> None:
    assert explain(3).kind == explain(13).kind == "absent"
    assert explain(4).kind == "denied"
    assert explain(15).kind == explain(28).kind == "lost"
    assert explain(10).kind == "timeout"
    assert explain(16).reason == "the GPU requires a reset (NVML error 16, ResetRequired)"


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


def test_a_reader_that_never_began_says_nothing_of_the_driver() -> None:
    """On a crowded machine Python itself may take longer than the time for the whole look."""
    crowded_out = ChildReply("nvidia", b"", "", None, timed_out=True, stuck=False, seconds=4.0, pid=1)
    assert nvidia.assemble(crowded_out).init_code.missing_kind == "failed"
    stuck = nvidia.assemble(crowded_out._replace(stuck=True))
    assert stuck.init_code.missing_kind == "timeout", "the kernel keeps it: that is the driver's doing"
