"""The NVML reader when NVML fails, lies, blocks or crashes: each costs its own facts, and is named."""

import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from gpudoctor import active
from gpudoctor.read import nvidia
from gpudoctor.snapshot import (
    Gpu,
    Nvidia,
    Reading,
)
from tests.lab import machines
from tests.lab.nvidia import SOURCES, Card, Machine
from tests.lab.reading import blocked_reply, kinds, nvml_of, nvml_reply, readings

MIB = machines.MIB


NOT_ASKED = {
    "nvmlDeviceGetHandleByUUID",
    "nvmlDeviceGetHandleByPciBusId_v2",
    "nvmlDeviceGetCount",
    "nvmlDeviceGetHandleByIndex",
    "nvmlDeviceGetHandleByPciBusId",
    "nvmlDeviceGetIndex",
    "nvmlDeviceGetNvLinkRemotePciInfo",
    "nvmlDeviceGetNvLinkCapability",
}
"""For torch, NCCL and the smoke test; the reader opens GPUs by index, and asks by the newest names."""
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
        "fan": 41,
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
    assert kinds(healthy) == {None, "failed", "absent"}  # no NUMA node without /sys, no licence asked for
    assert found.peers.is_read
    for function, gpu in sick.items():
        changed = changed_from(healthy, gpu)
        if function == "nvmlDeviceGetHandleByIndex_v2":
            assert kinds(gpu) == {kind}
        elif function in SECOND_CHOICE | {"nvmlDeviceGetP2PStatus", "nvmlDeviceGetTopologyCommonAncestor"}:
            assert changed == {}, function
        elif function == "nvmlDeviceGetGraphicsRunningProcesses_v3" and code == 3:
            assert changed == {}, "a GPU that cannot draw still has processes that compute"
        elif function == "nvmlDeviceGetGridLicensableFeatures_v4" and not changed:
            assert kind == "absent", "a card that is no virtual one has no licence to begin with"
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


def test_nvml_that_blocks_in_init_is_named() -> None:
    reply = blocked_reply(machines.hgx_h100().call("nvmlInit", "block"), "gpudoctor.read.nvidia", {b'"nvmlInit"': 1})
    found = nvidia.assemble(reply)
    for reading in (found.init_code, found.gpus, found.driver_version, found.peers):
        assert reading.missing_kind == "timeout"
        assert re.fullmatch(r"nvmlInit did not return within \d+ s", reading.reason)


def test_one_gpu_that_blocks_costs_only_its_own_facts() -> None:
    machine = machines.hgx_h100().call("nvmlDeviceGetEccMode", "block", gpu=3)
    finished_others = {b'"over":true': 10, b'"nvmlDeviceGetEccMode GPU 3"': 1}  # 7 GPUs, the pairs twice, the driver
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
        machine, "gpudoctor.read.nvidia", {b'"over":true': 2, b'HandleByIndex GPU 1"': 1, b'HandleByIndex"': 4}
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


@pytest.fixture(scope="module")
def whole_reply() -> active.ChildReply:
    return nvml_reply(machines.hgx_h100(2))


def test_a_reply_cut_off_anywhere_is_still_a_section(whole_reply: active.ChildReply) -> None:
    """As after a SIGKILL at any moment: what was said before stands, the rest has a reason, nothing is invented."""
    complete = nvidia.assemble(whole_reply)
    lines = whole_reply.output.split(b"\n")
    for kept in range(0, len(lines), 7):
        output = b"\n".join(lines[:kept]) + b"\n" + lines[kept][: len(lines[kept]) // 2]
        found = nvidia.assemble(whole_reply._replace(output=output, return_code=None, timed_out=True))
        for name in ("init_code", "driver_version", "peers"):
            reading = getattr(found, name)
            crowded_out = "had not come to its first call" in reading.reason
            assert reading == getattr(complete, name) or reading.missing_kind == "timeout" or crowded_out, name
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
    reply = active.ChildReply("nvidia", output, "", 0, False, False, 1.0, 1)
    assert isinstance(nvidia.assemble(reply), Nvidia)


def test_a_reader_that_cannot_be_imported_is_a_reason() -> None:
    trace = "Traceback (most recent call last):\nModuleNotFoundError: No module named 'pynvml'\n"
    found = nvidia.assemble(active.ChildReply("nvidia", b"", trace, 1, False, False, 0.1, 1))
    assert "No module named 'pynvml'" in found.gpus.reason
    assert found.gpus.missing_kind == "failed"
