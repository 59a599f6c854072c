"""`nvidia-smi -q` of each driver generation: what it says is read, and what it does not say is not made up."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpudoctor.diagnose import diagnose
from gpudoctor.plugins import chosen_checks
from gpudoctor.read.file import load_snapshot, snapshot_of
from gpudoctor.snapshot import EccCounts, Fabric, Gpu, Reading, RemappedRows, RetiredPages, Snapshot

FIXTURES = Path(__file__).parent / "fixtures" / "nvidia_smi"
MIB = 1024**2


def fixture(name: str) -> Snapshot:
    return load_snapshot(str(FIXTURES / name))


def gpu(name: str, index: int = 0) -> Gpu:
    return fixture(name).nvidia.gpus.value[index]


EXPECTED: dict[str, dict[str, Any]] = {
    "418-p100.txt": {
        "name": "Tesla P100-PCIE-16GB",
        "uuid": "GPU-aaaa0001-1111-2222-3333-444444444401",
        "serial": "0320000000001",
        "pci_bus_id": "00000000:3b:00.0",
        "vbios_version": "86.00.4D.00.01",
        "pcie_generation": 3,
        "pcie_width": 8,
        "pcie_width_max": 16,
        "pcie_replays": 12,
        "clock_event_reasons": 0x2 | 0x8 | 0x40,
        "memory_total_bytes": 16280 * MIB,
        "memory_used_bytes": 1200 * MIB,
        "compute_mode": "exclusive-process",
        "utilization_gpu_percent": 97,
        "ecc_mode": True,
        "ecc_mode_pending": False,
        "ecc_volatile": EccCounts(3, 1),
        "ecc_aggregate": EccCounts(41, 2),
        "retired_pages": RetiredPages(1, 2, True),
        "temperature_celsius": 84,
        "temperature_slowdown_celsius": 82,
        "temperature_shutdown_celsius": 85,
        "power_draw_watts": 180.25,
        "power_limit_watts": 200.0,
        "power_limit_default_watts": 250.0,
        "clock_sm_mhz": 544,
        "clock_sm_max_mhz": 1328,
        "clock_memory_max_mhz": 715,
    },
    "470-a100.txt": {
        "pci_bus_id": "0000000a:07:00.0",
        "minor_number": 2,
        "mig_mode": True,
        "mig_mode_pending": False,
        "ecc_volatile": EccCounts(20, 3),
        "ecc_aggregate": EccCounts(300, 12),
        "remapped_rows": RemappedRows(0, 3, pending=True, failed=False),
    },
    "515-t4.xml": {
        "pci_bus_id": "00000000:00:1e.0",
        "clock_event_reasons": 0x1 | 0x4 | 0x20 | 0x100,
        "memory_reserved_bytes": 388 * MIB,
        "compute_mode": "prohibited",
        "ecc_volatile": EccCounts(3, 4),
        "ecc_aggregate": EccCounts(10, 5),
        "retired_pages": RetiredPages(0, 3, True),
        "temperature_slowdown_celsius": 93,
        "temperature_shutdown_celsius": 96,
        "power_limit_watts": 65.0,
        "performance_state": 8,
        "clock_memory_max_mhz": 5001,
        "display_active": False,
        "pcie_generation": 1,
        "pcie_generation_max": 3,
        "pcie_width": 8,
    },
    "535-a100-mig.xml": {
        "clock_event_reasons": 0x8 | 0x80,
        "remapped_rows": RemappedRows(2, 1, pending=False, failed=True),
        "power_limit_watts": 400.0,
        "recovery_action": 1,
        "processes": (),
    },
    "565-h100.txt": {
        "recovery_action": 4,
        "ecc_volatile": EccCounts(0, 7),
        "ecc_aggregate": EccCounts(0, 70),
        "sram_threshold_exceeded": True,
        "temperature_slowdown_celsius": 30 + 57 + 2,
        "temperature_shutdown_celsius": 30 + 57 + 8,
        "power_draw_watts": 100.89,
        "clock_sm_mhz": 345,
        "clock_sm_max_mhz": 1980,
        "fabric": Fabric(2, 0),
        "mig_devices": (),
        "processes": (),
    },
    "590-l40s.txt": {"recovery_action": 2, "power_draw_watts": 71.27, "pcie_generation_max": 4, "processes": ()},
    "610-rtx-2080.txt": {
        "power_draw_watts": 38.89,
        "power_limit_watts": 240.0,
        "power_limit_default_watts": 250.0,
        "temperature_slowdown_celsius": 97,
        "display_active": True,
        "recovery_action": 0,
    },
}

MISSING = {
    "418-p100.txt": {"fabric": "absent", "recovery_action": "absent", "mig_mode": "failed", "nvlinks": "failed"},
    "470-a100.txt": {
        "gsp_firmware_version": "absent",
        "retired_pages": "absent",
        "utilization_gpu_percent": "absent",
        "temperature_celsius": "failed",
        "sram_threshold_exceeded": "absent",
    },
    "515-t4.xml": {"mig_mode": "absent", "mig_devices": "absent", "remapped_rows": "absent", "fabric": "absent"},
    "535-a100-mig.xml": {"fabric": "absent", "retired_pages": "failed", "serial": "failed"},
    "565-h100.txt": {"memory_temperature_max_celsius": "failed", "retired_pages": "absent", "inforom_valid": "failed"},
    "590-l40s.txt": {"temperature_slowdown_celsius": "absent", "memory_temperature_max_celsius": "absent"},
    "610-rtx-2080.txt": {
        "ecc_volatile": "absent",
        "ecc_mode": "absent",
        "serial": "absent",
        "remapped_rows": "absent",
        "sram_threshold_exceeded": "absent",
    },
}

DRIVERS = {
    "418-p100.txt": ("418.40.04", (10, 1)),
    "470-a100.txt": ("470.82.01", (11, 4)),
    "515-t4.xml": ("515.48.07", (11, 7)),
    "535-a100-mig.xml": ("535.104.05", (12, 2)),
    "565-h100.txt": ("565.57.01", (12, 7)),
    "590-l40s.txt": ("590.48.01", (13, 1)),
    "610-rtx-2080.txt": ("610.57.04", (13, 3)),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_reads_what_each_generation_says(name: str) -> None:
    found = gpu(name)
    assert {field: getattr(found, field).value_or("unread") for field in EXPECTED[name]} == EXPECTED[name]


@pytest.mark.parametrize("name", MISSING)
def test_says_why_a_fact_is_not_there(name: str) -> None:
    found = gpu(name)
    assert {field: getattr(found, field).missing_kind for field in MISSING[name]} == MISSING[name]


@pytest.mark.parametrize("name", DRIVERS)
def test_reads_the_driver_under_its_old_and_new_names(name: str) -> None:
    nvidia = fixture(name).nvidia
    assert (nvidia.driver_version.value, nvidia.cuda_version.value) == DRIVERS[name]
    assert nvidia.init_code.value == 0


def test_there_is_an_expectation_for_every_fixture() -> None:
    assert {path.name for path in FIXTURES.iterdir()} == EXPECTED.keys() == MISSING.keys() == DRIVERS.keys()


def test_reads_processes_and_their_kinds() -> None:
    (compute,) = gpu("418-p100.txt").processes.value
    assert (compute.pid, compute.kind, compute.memory_bytes) == (4242, "compute", 1190 * MIB)
    assert compute.command.value == "/home/alice/venv/bin/python"
    server, client = gpu("470-a100.txt").processes.value
    assert (server.kind, client.kind) == ("compute", "compute")
    assert (client.memory_bytes, client.command.missing_kind) == (None, "denied")
    (desktop,) = gpu("515-t4.xml").processes.value
    assert (desktop.pid, desktop.kind) == (1234, "graphics")


@pytest.mark.parametrize(
    ("name", "instances"), [("470-a100.txt", [(1, 0, 7), (2, 3, 100)]), ("535-a100-mig.xml", [(3, 0, 12), (4, 1, 500)])]
)
def test_reads_mig_devices(name: str, instances: list[tuple[int, int, int]]) -> None:
    devices = gpu(name).mig_devices.value
    assert [
        (device.gpu_instance.value, device.compute_instance.value, device.memory_used_bytes.value // MIB)
        for device in devices
    ] == instances
    assert "nvidia-smi -L" in devices[0].uuid.reason


def test_keeps_the_reason_of_a_gpu_that_fails_in_parts() -> None:
    failing = gpu("418-p100.txt", 1)
    kinds = [
        getattr(failing, field).missing_kind
        for field in ("serial", "memory_total_bytes", "memory_used_bytes", "memory_free_bytes")
    ]
    assert kinds == ["failed", "failed", "lost", "denied"]
    assert failing.uuid.value == "GPU-aaaa0002-1111-2222-3333-444444444402"


def test_a_second_gpu_has_its_own_values() -> None:
    first, second = fixture("565-h100.txt").nvidia.gpus.value
    assert (first.recovery_action.value, second.recovery_action.value) == (4, 0)
    assert (first.fabric.value.state, second.fabric.value) == (2, Fabric(3, 0))
    assert [card.index for card in (first, second)] == [0, 1]


def test_names_the_file_as_its_origin_and_the_gpus_that_it_leaves_out() -> None:
    assert fixture("565-h100.txt").origin == "nvidia-smi -q (driver 565.57.01)"
    assert fixture("535-a100-mig.xml").origin == "nvidia-smi -q -x (driver 535.104.05, 1 of 4 GPUs)"


def test_other_sections_say_that_they_are_not_in_the_file() -> None:
    machine = fixture("565-h100.txt")
    unread: list[Reading[Any]] = [
        machine.environment,
        machine.host.shared_memory,
        machine.training.torch,
        machine.accelerators.pci,
        machine.cuda.visible,
        machine.nvidia.peers,
    ]
    assert {(reading.source, reading.reason) for reading in unread} == {("nvidia-smi -q", "not in this output")}
    assert machine.active.smoke.missing_kind == "not-asked"


@pytest.mark.parametrize(
    ("line", "kind", "pci"),
    [
        ("Unable to determine the device handle for GPU 0000:2A:00.0: GPU is lost.  Reboot the system.", "lost", None),
        ("Unable to determine the device handle for GPU0000:2A:00.0: Unknown Error", "failed", "00000000:2a:00.0"),
        ("Unable to determine the device handle for GPU1: 0000:2A:00.0: Unknown Error", "failed", "00000000:2a:00.0"),
        (
            "Unable to determine the device handle for gpu 0000:2A:00.0: Insufficient Permissions",
            "denied",
            "00000000:2a:00.0",
        ),
    ],
)
def test_keeps_a_gpu_that_could_not_be_opened_in_its_place(line: str, kind: str, pci: str | None) -> None:
    text = (FIXTURES / "565-h100.txt").read_text()
    head, _, second = text.partition("\nGPU 00000000:2A:00.0\n")
    third = "GPU 00000000:3A:00.0\n" + second
    machine = snapshot_of(
        f"{head}\n{line}\n{third}".replace(
            "Attached GPUs                             : 2", "Attached GPUs                             : 3"
        ).encode()
    )
    gpus = machine.nvidia.gpus.value
    assert [card.name.is_read for card in gpus] == [True, False, True]
    assert gpus[1].name.missing_kind == kind
    assert gpus[1].pci_bus_id.value_or(None) == pci
    assert "2A:00.0" in gpus[1].name.reason
    assert [card.index for card in gpus] == [0, 1, 2]
    assert "of" not in machine.origin


@pytest.mark.parametrize(
    ("text", "code", "gpus"),
    [
        ("Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.161\n", 18, None),
        ("Failed to initialize NVML: Unknown Error\n", 999, None),
        ("Failed to initialize NVML: Insufficient Permissions\n", 4, None),
        (
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest "
            "NVIDIA driver is installed and running.\n",
            9,
            None,
        ),
        ("alice@gpu17:~$ nvidia-smi -q\nNo devices were found\n", 0, 0),
        ("Unable to determine the device handle for GPU0000:02:00.0: GPU is lost.  Reboot the system.\n", 0, 1),
    ],
)
def test_a_mere_complaint_is_a_finding(text: str, code: int, gpus: int | None) -> None:
    nvidia = snapshot_of(text.encode()).nvidia
    assert nvidia.init_code.value == code
    assert (len(nvidia.gpus.value) if nvidia.gpus.is_read else None) == gpus


def test_a_warning_about_the_inforom_belongs_to_its_gpu() -> None:
    text = (FIXTURES / "565-h100.txt").read_text() + "WARNING: infoROM is corrupted at gpu 0000:2A:00.0\n"
    first, second = snapshot_of(text.encode()).nvidia.gpus.value
    assert second.inforom_valid.value is False
    assert not first.inforom_valid.is_read


def test_half_a_list_or_sum_is_no_list_or_sum() -> None:
    text = (FIXTURES / "565-h100.txt").read_text()
    cut = text[: text.index("            DRAM Uncorrectable            : 4\n")]
    (card,) = snapshot_of(cut.encode()).nvidia.gpus.value
    assert not card.ecc_volatile.is_read
    mig = (FIXTURES / "470-a100.txt").read_text()
    (card,) = snapshot_of(mig[: mig.index("    Serial Number")].encode()).nvidia.gpus.value
    assert not card.mig_devices.is_read
    xml = (FIXTURES / "535-a100-mig.xml").read_text()
    (card,) = snapshot_of(xml[: xml.index("<index>1</index>")].encode()).nvidia.gpus.value
    assert not card.mig_devices.is_read


def test_an_unknown_word_is_unread_and_quoted() -> None:
    text = (FIXTURES / "590-l40s.txt").read_text().replace(": Reboot", ": Sing a song")
    reading = snapshot_of(text.encode()).nvidia.gpus.value[0].recovery_action
    assert reading.missing_kind == "failed"
    text = (
        (FIXTURES / "565-h100.txt")
        .read_text()
        .replace("Persistence Mode                      : Enabled", "Persistence Mode                      : Sometimes")
    )
    reading_of_mode = snapshot_of(text.encode()).nvidia.gpus.value[0].persistence_mode
    assert "'Sometimes'" in reading_of_mode.reason


SENTENCES = (
    ("Failed to initialize NVML: Driver/library version mismatch", "nvidia-driver-library-mismatch"),
    ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "nvidia-driver-not-loaded"),
    ("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.", "nvidia-driver-missing"),
    ("Unable to determine the device handle for GPU0000:CA:00.0: Unknown Error", "gpu-unreadable"),
    ("Unable to determine the device handle for GPU 0000:02:00.0: Insufficient External Power", "gpu-unreadable"),
    ("Unable to determine the device handle for gpu 0000:02:00.0: Insufficient Permissions", "gpu-unreadable"),
    ("Unable to determine the device handle for GPU0000:CA:00.0: Unk", "gpu-unreadable"),
    ("No devices were found", "driver-serves-no-gpu"),
    ("Failed to initialize NVML: Unknown Error", "nvml-broken"),
    ("Failed to initialize NVML: Insufficient Permissions", "nvidia-devices-unreadable"),
    ("Failed to initialize NVML: GPU access blocked by the operating system", "nvml-broken"),
    ("GPU access blocked by the operating system", "nvml-broken"),
    ("Unknown Error", "nvml-broken"),
    (
        "nvidia-container-cli: initialization error: nvml error: driver/library version mismatch: unknown",
        "nvidia-driver-library-mismatch",
    ),
)


def written(text: str) -> Iterator[bytes]:
    """A sentence as people paste it."""
    yield text.encode()
    yield ("\ufeffPS C:\\> nvidia-smi\r\n" + text + "\r\n").encode("utf-16-le")
    yield f"**{text}**\n".encode()
    yield text.replace("'", "\u2019").replace(" ", "\u00a0").encode()
    yield "\n> ".join(["> nvidia-smi", *re.findall(r"\S+(?: \S+){0,3}", text)]).encode()


@pytest.mark.parametrize(("text", "finding"), SENTENCES)
def test_a_sentence_is_its_finding_however_it_is_written(text: str, finding: str) -> None:
    for raw in written(text):
        report = diagnose(snapshot_of(raw), *chosen_checks([]))
        assert finding in {result.check for result, _ in report.problems}, raw
        assert report.exit_status == 1, raw
