"""The libcuda reader in a real child process, against a fake libcuda.so.1 that knows NVIDIA's documented rules."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from gpudoctor import active
from gpudoctor.read import cuda, libcuda
from gpudoctor.snapshot import CudaAnswer, Reading
from tests.driver_answers import examined
from tests.lab import machines
from tests.lab.nvidia import Machine, fake_nvidia, libraries
from tests.lab.reading import blocked_reply, cuda_of, cuda_reply, nvml_of

H100 = machines.hgx_h100()
UUIDS = [machines.uuid(index) for index in range(8)]


def visible(answer: Reading[CudaAnswer]) -> list[str]:
    return [device.uuid for device in answer.value.devices]


def test_gives_every_device_as_nvml_does() -> None:
    answer = cuda_of(H100).value
    assert (answer.error, answer.error_name) == (0, "CUDA_SUCCESS")
    assert answer.driver_version == (13, 0)
    assert answer.library == str(libraries() / "libcuda.so.1")
    assert [device.ordinal for device in answer.devices] == list(range(8))
    for device, gpu in zip(answer.devices, nvml_of(H100).gpus.value, strict=True):
        assert device.uuid == gpu.uuid.value
        assert device.pci_bus_id == gpu.pci_bus_id.value
        assert device.name == gpu.name.value
        assert device.memory_total_bytes == gpu.memory_total_bytes.value
        assert (device.gpu_direct_rdma, device.dma_buf) == (True, True)


def test_what_a_driver_does_not_know_of_gpudirect_is_unknown() -> None:
    old = H100.but_gpu(0, dma_buf=None).call("cuDeviceGetAttribute", "fail:1", gpu=1)
    answer = cuda_of(old).value.devices
    assert [(device.gpu_direct_rdma, device.dma_buf) for device in answer[:2]] == [(True, None), (None, None)]
    assert cuda_of(machines.four_rtx_4090()).value.devices[0].gpu_direct_rdma is False


@pytest.mark.parametrize(
    ("variable", "indices"),
    [
        ("2,1", [2, 1]),
        ("", []),
        ("0,2,-1,1", [0, 2]),
        ("8", []),
        ("0,1,1", []),
        ("1gpu2,2ampere", [1, 2]),
        (" 0, 1", [0, 1]),
        ("+3,-0", [3, 0]),
        ("0-2", [0]),
        ("0,,1", [0]),
        (f"{UUIDS[3]},GPU-9e8d1111", [3, 1]),
        ("GPU-9e8d", []),
        (f"{UUIDS[4]},GPU-ffff,{UUIDS[1]}", [4]),
        (f"{UUIDS[4]},GPU-9e8d4444", []),
    ],
)
def test_the_environment_decides(variable: str, indices: list[int]) -> None:
    """The CUDA Programming Guide's rules, and what drivers were seen to do."""
    answer = cuda_of(H100, CUDA_VISIBLE_DEVICES=variable)
    assert visible(answer) == [UUIDS[index] for index in indices]
    assert answer.value.error == (0 if indices else 100)
    assert answer.value.error_name == ("CUDA_SUCCESS" if indices else "CUDA_ERROR_NO_DEVICE")


def test_the_fastest_card_comes_first_unless_told_otherwise() -> None:
    mixed = machines.mixed_cards()
    assert [device.name[-7:] for device in cuda_of(mixed).value.devices] == ["1080 Ti", "GTX 745"]
    in_pci_order = cuda_of(mixed, CUDA_DEVICE_ORDER="PCI_BUS_ID").value.devices
    assert [device.name[-7:] for device in in_pci_order] == ["GTX 745", "1080 Ti"]
    station = cuda_of(machines.dgx_station())
    assert visible(station) == [UUIDS[index] for index in (0, 1, 2, 4, 3)]
    assert visible(cuda_of(machines.dgx_station(), CUDA_VISIBLE_DEVICES="3")) == [UUIDS[4]]


def mig(gpu: int, slot: int) -> str:
    return machines.uuid(16 * gpu + slot, "MIG")


@pytest.mark.parametrize(
    ("driver", "variable", "expected"),
    [
        ("580.95.05", mig(2, 1), [mig(2, 1)]),
        ("580.95.05", f"{mig(2, 3)},{mig(5, 0)},{UUIDS[0]}", [mig(2, 3), mig(5, 0), UUIDS[0]]),
        ("580.95.05", f"MIG-{UUIDS[2]}/2/0", [mig(2, 1)]),
        ("580.95.05", UUIDS[2], []),
        ("535.183.01", f"{mig(2, 0)},{mig(5, 0)}", [mig(2, 0)]),
        ("535.183.01", UUIDS[0], []),
        ("535.183.01", None, [mig(2, 0)]),
    ],
)
def test_mig_devices_have_their_own_uuid(driver: str, variable: str | None, expected: list[str]) -> None:
    machine = machines.hgx_a100_with_mig(driver)
    variables = {} if variable is None else {"CUDA_VISIBLE_DEVICES": variable}
    assert visible(cuda_of(machine, **variables)) == expected


def test_mig_devices_take_the_place_of_their_gpu() -> None:
    found = visible(cuda_of(machines.hgx_a100_with_mig()))
    assert found[:6] == [UUIDS[0], UUIDS[1], mig(2, 0), mig(2, 1), mig(2, 3), UUIDS[3]]
    assert mig(5, 0) in found and mig(5, 1) not in found, "one compute instance of each GPU instance"


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (802, "CUDA_ERROR_SYSTEM_NOT_READY"),
        (803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
        (804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"),
        (999, "CUDA_ERROR_UNKNOWN"),
        (4711, ""),
    ],
)
def test_an_init_that_fails_is_an_answer(code: int, name: str) -> None:
    answer = cuda_of(H100.call("cuInit", f"fail:{code}")).value
    assert (answer.error, answer.error_name, answer.devices) == (code, name, ())
    assert answer.driver_version == (13, 0)


@pytest.mark.parametrize(
    "function", ["cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceGetPCIBusId", "cuDeviceGetUuid"]
)
def test_a_call_that_fails_after_init_is_named(function: str) -> None:
    answer = cuda_of(H100.call(function, "fail:999"))
    assert answer.missing_kind == "failed"
    assert answer.reason == f"{function} failed with CUDA error 999 CUDA_ERROR_UNKNOWN"


def test_what_is_only_nice_to_know_may_fail() -> None:
    answer = cuda_of(H100.call("cuDriverGetVersion", "fail:999").call("cuDeviceTotalMem_v2", "fail:999")).value
    assert answer.driver_version is None
    assert {device.memory_total_bytes for device in answer.devices} == {None}
    assert len(answer.devices) == 8


def test_garbage_is_shown_and_not_fatal() -> None:
    machine = Machine((machines.h100(0),))
    for function in ("cuDeviceGetName", "cuDeviceGetUuid", "cuDeviceGetUuid_v2"):
        machine = machine.call(function, "lie")
    (device,) = cuda_of(machine).value.devices
    assert device.uuid == "GPU-f5f5f5f5-f5f5-f5f5-f5f5-f5f5f5f5f5f5"
    assert "\ufffd" in device.name


def test_an_address_that_is_none_is_a_reason() -> None:
    answer = cuda_of(Machine((machines.h100(0),)).call("cuDeviceGetPCIBusId", "lie"))
    assert "is no PCI address" in answer.reason


@pytest.mark.parametrize(
    ("error", "library", "absence"),
    [
        ("libcuda.so.1: cannot open shared object file: No such file or directory", "libcuda.so.1", True),
        ("Error loading shared library libcuda.so.1: No such file or directory", "libcuda.so.1", True),
        ("dlopen(libcuda.so.1, 0x0006): tried: 'libcuda.so.1' (no such file)", "libcuda.so.1", True),
        ("Could not find module 'nvcuda.dll' (or one of its dependencies)", "nvcuda.dll", True),
        ("libelf.so.9: cannot open shared object file: No such file or directory", "libcuda.so.1", False),
        ("/usr/lib/libcuda.so.1: file too short", "libcuda.so.1", False),
    ],
)
def test_a_library_that_is_not_there_is_told_from_one_that_is_broken(error: str, library: str, absence: bool) -> None:
    assert libcuda.is_about_absence(error, library) is absence


def test_a_broken_library_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").write_text("not an ELF file")
    answer = cuda_of(H100, LD_LIBRARY_PATH=str(tmp_path))
    assert answer.missing_kind == "failed"
    assert "libcuda.so.1 could not be loaded" in answer.reason


def test_no_library_is_no_driver() -> None:
    output = (
        active.MARK + b'{"call": "loading libcuda.so.1"}\n' + active.MARK + b'{"absent": "libcuda.so.1 not found"}\n'
    )
    answer = cuda.assemble(active.ChildReply("cuda", output, "", 0, False, False, 0.1, 1))
    assert (answer.missing_kind, answer.reason) == ("absent", "libcuda.so.1 not found")


def test_init_that_blocks_is_named() -> None:
    reply = blocked_reply(H100.call("cuInit", "block"), "gpudoctor.read.libcuda", {b'"cuInit"': 1})
    answer = cuda.assemble(reply)
    assert answer.missing_kind == "timeout"
    assert re.fullmatch(r"cuInit did not return within \d+ s", answer.reason)


@pytest.mark.parametrize("function", ["cuInit", "cuDeviceGetUuid_v2"])
def test_a_call_that_crashes_is_named(function: str) -> None:
    answer = cuda.assemble(cuda_reply(H100.call(function, "crash")))
    assert answer.missing_kind == "failed"
    assert answer.reason == f"the process was killed by SIGSEGV during {function}"


@given(st.binary(min_size=16, max_size=16))
def test_a_uuid_is_spelled_from_all_its_bytes(raw: bytes) -> None:
    spelled = libcuda.spelled(raw)
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", spelled)
    assert bytes.fromhex(spelled.replace("-", "")) == raw


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["error", "devices", "uuid"]), inner),
    max_leaves=6,
)


@given(
    st.lists(st.dictionaries(st.sampled_from(["call", "answer", "absent", "failed"]), JSON), max_size=4), st.binary()
)
def test_no_reply_makes_assemble_raise(said: Sequence[dict[str, object]], noise: bytes) -> None:
    output = b"".join(active.MARK + json.dumps(message).encode() + b"\n" for message in said) + noise
    answer = cuda.assemble(active.ChildReply("cuda", output, "", 0, False, False, 1.0, 1))
    assert answer.is_read or answer.reason


def test_the_suite_for_gpus_reads_a_machine_as_gpudoctor_does() -> None:
    """It runs only where there is a GPU; that it can look at all is tried here."""
    with fake_nvidia(H100) as environment:
        machine = examined(environment)
    assert machine.cuda.all.is_read, machine.cuda.all.reason
    assert len(machine.nvidia.gpus.value) == 8
