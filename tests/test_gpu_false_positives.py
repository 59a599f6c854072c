"""Healthy machines of many kinds, on which the checks of GPUs and driver must not warn; and facts that go missing."""

import shlex
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from gpudoctor.diagnose import ask
from gpudoctor.plugins import find_checks
from gpudoctor.snapshot import (
    CudaAnswer,
    DeviceNode,
    Fabric,
    Gpu,
    MissingKind,
    PciDevice,
    Reading,
    Snapshot,
    absent,
    missing,
    read,
)
from gpudoctor.testing.machines import (
    UNSUPPORTED,
    but,
    but_gpu,
    gpu,
    h100_node,
    node,
    nvml,
    rtx_4090_node,
    t4_node,
    unread,
)
from tests.gpu_machines import (
    MIG_A100,
    a100_pcie,
    every,
    in_container,
    in_vm,
    laptop,
    links,
    peers,
    rtx_3070_node,
    without_switches,
)

CHECKS = [check for check in find_checks()[0] if check.group in ("gpu", "driver")]
GPU_FACTS = [name for name in Gpu.__struct_fields__ if name != "index"]


def subset() -> Snapshot:
    """A container that was given two GPUs of eight; /sys shows the host's PCI bus and switches."""
    machine = in_container(h100_node())
    given = machine.nvidia.gpus.value[:2]
    pairs = tuple(pair for pair in machine.nvidia.peers.value if max(pair.from_gpu, pair.to_gpu) < 2)
    return but(but(machine, "nvidia.gpus", given), "nvidia.peers", pairs)


def slurm_job() -> Snapshot:
    machine = h100_node()
    machine = but(machine, "nvidia.gpus", machine.nvidia.gpus.value[:4])
    pairs = tuple(pair for pair in machine.nvidia.peers.value if max(pair.from_gpu, pair.to_gpu) < 4)
    machine = but(machine, "nvidia.peers", pairs)
    return but(machine, "environment", {"SLURM_JOB_ID": "17"})


def pcie_boards() -> Snapshot:
    """Four A100 PCIe cards without bridges, and no fabric manager."""
    machine = node(tuple(a100_pcie(index, 0) for index in range(4)))
    return but(machine, "host.fabric_manager", "")


def mig_node() -> Snapshot:
    machine = peers(node(tuple(gpu(index, **MIG_A100) for index in range(4))), "not-supported")
    return but(machine, "host.fabric_manager", "")


def superchips() -> Snapshot:
    """A GB200 compute tray, whose switches are elsewhere; its IMEX domain is not set up and need not be."""
    machine = node(tuple(gpu(n, name="NVIDIA GB200", fabric=Fabric(2, 0)) for n in range(4)))
    return but(without_switches(machine), "host.fabric_manager", "")


def virtual_h100() -> Snapshot:
    """One module of a baseboard in a virtual machine: no switches, no links."""
    machine = in_vm(without_switches(every(h100_node(1), nvlinks=links(0), fabric=nvml(Fabric(1, 0)))))
    return but(machine, "host.fabric_manager", "")


def no_gpu() -> Snapshot:
    """A machine without NVIDIA hardware, as gpudoctor.read.machine leaves it."""
    machine = t4_node()
    nothing: Reading[Any] = absent("/sys/bus/pci/devices, /dev/nvidia*", "no NVIDIA GPU on this machine")
    facts = dict.fromkeys(machine.nvidia.__struct_fields__, nothing) | {"init_code": read("nvmlInit", 12)}
    machine = but(machine, "nvidia", msgspec.structs.replace(machine.nvidia, **facts))
    machine = but(but(machine, "accelerators.pci", ()), "accelerators.device_nodes", ())
    none: Reading[CudaAnswer] = absent("libcuda.so.1", "libcuda.so.1 was not found")
    return but(but(machine, "cuda.visible", none), "cuda.all", none)


HEALTHY: dict[str, Callable[[], Snapshot]] = {
    "8xH100": h100_node,
    "2 of 8 GPUs in a container": subset,
    "4 of 8 GPUs in a SLURM job": slurm_job,
    "4xA100 PCIe without NVLink": pcie_boards,
    "4xA100 in MIG mode": mig_node,
    "GB200 tray": superchips,
    "1xH100 in a virtual machine": virtual_h100,
    "4xRTX 4090 without peer-to-peer": lambda: peers(rtx_4090_node(), "chipset-not-supported"),
    "2xRTX 3070 in unequal slots": rtx_3070_node,
    "notebook": laptop,
    "no GPU": no_gpu,
}


@pytest.mark.parametrize("name", HEALTHY)
def test_no_warning_on_a_healthy_machine(name: str) -> None:
    machine = HEALTHY[name]()
    results = [ask(check, machine) for check in CHECKS]
    assert [problem.summary for one in results for problem in one.problems if problem.severity != "info"] == []
    assert [one.check for one in results if one.outcome == "crashed"] == []
    # A container cannot see the host's fabric manager, and says so; elsewhere all can be judged.
    hidden = {"fabric-manager-not-running", "fabric-manager-version-differs"} if "container" in name else set()
    assert {one.check for one in results if one.outcome == "skipped"} == hidden


@pytest.mark.parametrize("fact", GPU_FACTS)
def test_a_fact_that_no_gpu_supports_is_no_problem(fact: str) -> None:
    # Without its identity a GPU is one that cannot be opened, which NVML never words as "not supported".
    machine = every(h100_node(), **{fact: UNSUPPORTED})
    results = [ask(check, machine) for check in CHECKS]
    assert [
        (one.check, one.problems) for one in results if one.outcome not in ("ok", "not-applicable", "not-run")
    ] == []


KINDS: dict[MissingKind, set[str]] = {"denied": set(), "lost": {"gpu-lost"}, "timeout": {"nvml-unresponsive"}}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fact", GPU_FACTS)
def test_a_fact_that_cannot_be_read_is_no_other_problem(fact: str, kind: MissingKind) -> None:
    machine = h100_node()
    gpus = list(machine.nvidia.gpus.value)
    gpus[3] = msgspec.structs.replace(gpus[3], **{fact: missing("nvml", "for a test", kind)})
    machine = but(machine, "nvidia.gpus", tuple(gpus))
    results = [ask(check, machine) for check in CHECKS]
    assert {one.check for one in results if one.outcome == "problem"} <= KINDS[kind]
    assert [one.check for one in results if one.outcome == "crashed"] == []


def test_a_gpu_that_hides_does_not_hide_the_others() -> None:
    """One lost GPU, and a narrow link and a lowered limit elsewhere: all three are said."""
    machine = h100_node()
    gpus = list(machine.nvidia.gpus.value)
    lost = missing("nvmlDeviceGetHandleByIndex GPU 3", "the GPU is lost", "lost")
    gpus[3] = Gpu(3, **dict.fromkeys(GPU_FACTS, lost))
    gpus[5] = msgspec.structs.replace(gpus[5], pcie_width=nvml(8), power_limit_watts=nvml(500.0))
    machine = but(machine, "nvidia.gpus", tuple(gpus))
    found = {check.id: ask(check, machine) for check in CHECKS}
    assert {name for name, one in found.items() if one.outcome == "problem"} == {
        "gpu-lost",
        "pcie-link-narrow",
        "power-limit-lowered",
    }
    assert found["power-limit-lowered"].problems[0].gpus == (5,)
    assert found["power-limit-lowered"].reasons, "that GPU 3 was not judged is said too"
    assert found["ecc-mode-differs"].outcome == "skipped"


def test_nothing_is_green_that_was_not_looked_at() -> None:
    """With every fact of the driver and of the GPUs denied, no check says ok."""
    machine = h100_node()
    denied = unread()
    machine = but(
        but(machine, "told_troubles", denied),
        "nvidia",
        msgspec.structs.replace(machine.nvidia, **dict.fromkeys(machine.nvidia.__struct_fields__, denied)),
    )
    for section in ("cuda", "accelerators", "host"):
        part = getattr(machine, section)
        machine = but(machine, section, msgspec.structs.replace(part, **dict.fromkeys(part.__struct_fields__, denied)))
    assert [check.id for check in CHECKS if ask(check, machine).outcome != "skipped"] == []


TRAP = "0;touch /tmp/owned #"


def test_a_strangers_snapshot_puts_no_command_into_the_lines_to_paste() -> None:
    """`check --from FILE` shows lines to paste; what the file says stands in them as words, never as commands."""
    node_file = DeviceNode("/dev/nvidiactl", False, False, 0o660, "root", TRAP)
    odd = PciDevice(TRAP, "0x10de", "0x1eb8", "0x030200")
    machines = [
        but(t4_node(), "accelerators.device_nodes", (node_file,)),
        but(t4_node(), "accelerators.pci", (*t4_node().accelerators.pci.value, odd)),
        but(t4_node(), "cuda.visible", absent("libcuda.so.1", "not found")),
        but(h100_node(), "host.fabric_manager", "1"),
        every(h100_node(), pci_bus_id=nvml(TRAP), pcie_width=nvml(8)),
        but_gpu(h100_node(), 3, pci_bus_id=TRAP, pcie_width_max=8),
        but(t4_node(), "nvidia.init_code", 12),
        but(h100_node(), "cuda.visible", CudaAnswer(34, library="/usr/stubs/libcuda.so")),
    ]
    environment = {"LD_LIBRARY_PATH": f"/usr/stubs:{TRAP}", "LD_PRELOAD": TRAP}
    fired = set()
    for machine in machines:
        machine = but(machine, "nvidia.driver_version", TRAP)
        machine = but(machine, "nvidia.kernel_module_version", TRAP)
        machine = but(machine, "environment", environment)
        for result in (ask(check, machine) for check in CHECKS):
            assert result.outcome != "crashed", result
            for problem in result.problems:
                fired.add(result.check)
                for line in problem.fix.commands:
                    words = list(shlex.shlex(line, posix=True, punctuation_chars=True))
                    assert "touch" not in words and "/tmp/owned" not in words, line
    assert fired >= {
        "nvidia-devices-unreadable",
        "gpu-count-below-pci",
        "cuda-library-missing",
        "fabric-manager-version-differs",
        "nvidia-driver-missing",
        "cuda-stub-library",
        "pcie-link-narrow",
        "pcie-link-uneven",
    }
