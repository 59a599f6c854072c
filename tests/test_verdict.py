"""The three answers: ready, not ready, cannot tell. Every case was written down before gpudoctor was run on it."""

from typing import NamedTuple

import pytest
from msgspec.structs import replace

from gpudoctor.deciding import NO_CHECKS, sight
from gpudoctor.diagnose import diagnose
from gpudoctor.envelope import decode, encode
from gpudoctor.plugins import chosen_checks
from gpudoctor.read.file import snapshot_of
from gpudoctor.render.nagios import line
from gpudoctor.render.words import verdict
from gpudoctor.report import Report
from gpudoctor.snapshot import Missing, Reading, Snapshot, absent, missing, read
from gpudoctor.snapshot.expected import Expectation
from gpudoctor.testing.machines import but, but_gpu, h100_node, t4_node
from tests.machines.hand_built import MACHINES, no_accelerator, with_environment
from tests.smi_logs import NONE, gpu, log, processes

READY, NOT, CANNOT, WRONG = "ready", "not ready", "cannot tell", "nothing wrong"


class Case(NamedTuple):
    """What is given; the answer, its exit status, the findings that must be there, and words of the verdict."""

    name: str
    given: str | Snapshot
    answer: str
    findings: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 560.35\n"
TALK = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA "
    "driver is installed and running.\n"
)
LIBRARY = (
    "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the NVIDIA Display Driver "
    "is properly installed and present in your system.\nPlease also try adding directory that contains "
    "libnvidia-ml.so to your system PATH.\n"
)
HANDLE = "Unable to determine the device handle for GPU0000:5D:00.0: "
GPU_ONLY = ("GPUs: nothing wrong", "torch", "host", "network", "not in this file")


def without(index: int, text: str, note: str) -> str:
    """A log of eight whose section of one GPU is replaced by a note."""
    return text.replace(gpu(index) + "\n", note + "\n")


def no_torch(machine: Snapshot) -> Snapshot:
    nothing = absent("site-packages", "no torch in this interpreter")
    training = replace(machine.training, torch_files=nothing, torch=nothing, torch_probe=nothing)
    return replace(machine, training=training)


def torch_was(machine: Snapshot, why: str, kind: str) -> Snapshot:
    lost: Reading[object] = Reading("import torch", missing=Missing(why, kind))  # type: ignore[arg-type]
    return replace(machine, training=replace(machine.training, torch=lost, torch_probe=lost))


def seven() -> Snapshot:
    """A node of which one GPU is gone, from the bus too."""
    return h100_node(7)


def wanting(machine: Snapshot, text: str) -> Snapshot:
    return replace(machine, expected=read("--expect", Expectation.of(text)))


def pod(given: int, there: int) -> Snapshot:
    machine = but(h100_node(there), "host.container", "kubernetes")
    ids = ",".join(f"GPU-{index:08x}-1111-2222-3333-444444444444" for index in range(given))
    return with_environment(machine, NVIDIA_VISIBLE_DEVICES=ids, KUBERNETES_SERVICE_HOST="10.96.0.1")


BROKEN = (
    Case("a driver that was upgraded under us", MISMATCH, NOT, ("nvidia-driver-library-mismatch",)),
    Case("no word from the driver", TALK, NOT, ("nvidia-driver-not-loaded",)),
    Case("no library", LIBRARY, NOT, ("nvidia-driver-missing",)),
    Case("no handle", HANDLE + "Unknown Error\n", NOT, ("gpu-unreadable",)),
    Case("no handle, quoted", f"> $ nvidia-smi\n> {HANDLE}Unknown Error\n", NOT, ("gpu-unreadable",)),
    Case(
        "a GPU that fell off the bus",
        HANDLE + "GPU is lost.  Reboot the system to recover this GPU\n",
        NOT,
        ("gpu-lost",),
    ),
    Case("no devices", "No devices were found\n", NOT, ("driver-serves-no-gpu",)),
    Case("an unknown error", "Failed to initialize NVML: Unknown Error\n", NOT, ("nvml-broken",)),
    Case("no permission", "Failed to initialize NVML: Insufficient Permissions\n", NOT, ("nvidia-devices-unreadable",)),
    Case(
        "blocked in WSL",
        "Failed to initialize NVML: GPU access blocked by the operating system\nFailed to properly shut down NVML: "
        "GPU access blocked by the operating system\n",
        NOT,
        ("nvml-broken",),
    ),
    Case("driver not loaded", "Failed to initialize NVML: Driver Not Loaded\n", NOT, ("nvidia-driver-not-loaded",)),
    Case(
        "one of eight says ERR!",
        log({5: {"temperature": "ERR!", "power": "ERR!", "busy": "ERR!"}}),
        NOT,
        ("gpu-unreadable",),
    ),
    Case(
        "one of eight is unknown in most",
        log({3: dict.fromkeys(("total", "reserved", "used", "free", "temperature", "power", "busy"), "Unknown Error")}),
        NOT,
        ("gpu-unreadable",),
    ),
    Case(
        "one of eight wants a reset",
        log({2: dict.fromkeys(("total", "used", "free", "busy"), "GPU requires reset")}),
        NOT,
        ("gpu-recovery-action-needed",),
    ),
    Case("one of eight has no handle", without(3, log(), HANDLE + "Unknown Error"), NOT, ("gpu-unreadable",)),
    Case("one of eight is lost", without(3, log(), HANDLE + "GPU is lost"), NOT, ("gpu-lost",)),
    Case("memory errors", log({6: {"dram": "4"}}), NOT, ("ecc-uncorrected-errors",)),
    Case("an unhealthy fabric", log({1: {"summary": "Unhealthy"}}), NOT, ("fabric-not-ready",)),
    Case("an unhealthy route", log({1: {"summary": "Unhealthy", "route": "True"}}), NOT, ("fabric-not-ready",)),
    Case("the driver wants a reboot", log({4: {"action": "Reboot"}}), NOT, ("gpu-recovery-action-needed",)),
    Case("a cut log that shows a fault", log({0: {"dram": "9"}})[:9000], NOT, ("ecc-uncorrected-errors",)),
    Case("no torch beside GPUs", no_torch(h100_node()), NOT, ("torch-missing",)),
    Case("a CPU was meant, and there is no torch", wanting(no_torch(no_accelerator()), "cpu"), NOT, ("torch-missing",)),
    Case("seven of eight", wanting(seven(), "8xH100"), NOT, ("gpus-fewer-than-expected",), ("Not ready",)),
    Case("seven of eight, by number", wanting(seven(), "gpus=8"), NOT, ("gpus-fewer-than-expected",)),
    Case("another model", wanting(h100_node(), "8xA100"), NOT, ("gpus-fewer-than-expected",)),
    Case("a name within a name", wanting(h100_node(), "8xH10"), NOT, ("gpus-fewer-than-expected",)),
    Case("none of eight", wanting(no_accelerator(), "8"), NOT, ("gpus-fewer-than-expected",)),
    Case(
        "two are shown of eight",
        wanting(but(h100_node(), "cuda.visible.devices", h100_node().cuda.all.value.devices[:2]), "8xH100"),
        NOT,
        ("gpus-fewer-than-expected",),
    ),
    Case("a pod with three of four", pod(4, 3), NOT, ("gpus-fewer-than-expected",)),
    Case("a broken part of the broken node", MACHINES["broken-8xh100"](), NOT, ("row-remap-pending",), names=("gpu",)),
    Case(
        "seven of a file's eight",
        wanting(snapshot_of(log(count=7).encode()), "8xH100"),
        NOT,
        ("gpus-fewer-than-expected",),
    ),
)

HEALTHY = (
    Case("a whole node", h100_node(), READY, says=("Ready to train",)),
    Case("a whole node, as expected", wanting(h100_node(), "8xH100"), READY, says=("Ready to train",)),
    Case("more than expected", wanting(h100_node(), "gpus=4"), READY),
    Case("two T4", wanting(t4_node(), "2xT4"), READY),
    Case("a CPU, as expected", wanting(no_accelerator(), "cpu"), READY, says=("CPU",)),
    Case("GPUs beside an expected CPU", wanting(h100_node(), "cpu"), READY),
    Case("a pod with all of its four", pod(4, 4), READY),
    Case("a laptop", MACHINES["laptop"](), READY),
    Case("a whole log", log(), WRONG, says=GPU_ONLY),
    Case("a whole log, with its number", wanting(snapshot_of(log().encode()), "8xH100"), WRONG, says=GPU_ONLY),
    Case("a whole log of one", log(count=1), WRONG, says=GPU_ONLY),
    Case("a narrow link in a file", log({5: {"width": "8"}}), WRONG, ("pcie-link-narrow",), ("1 warning",)),
    Case("no persistence in a file", log(persistence="Disabled"), WRONG, ("persistence-mode-off",), ("1 warning",)),
    Case("less bandwidth in the fabric", log({1: {"bandwidth": "Degraded"}}), WRONG, ("fabric-not-ready",)),
    Case("a whole log on Windows", log().replace("\n", "\r\n"), WRONG, says=GPU_ONLY),
    Case("the network of the broken node", MACHINES["broken-8xh100"](), WRONG, says=("network",), names=("network",)),
    Case("all but torch", torch_was(h100_node(), "--no-torch", "not-asked"), WRONG, says=("torch was not asked",)),
)

PARTIAL = (
    Case("nothing at all", Snapshot(), CANNOT),
    Case("an empty file", "\n", CANNOT, says=("empty",)),
    Case("no accelerator", no_accelerator(), CANNOT, says=("No accelerator", "CPU")),
    Case("the GPUs of a machine without", no_accelerator(), CANNOT, names=("gpu",)),
    Case("a log cut in its last GPU", log()[:-2600], CANNOT, says=("cut",)),
    Case("a log cut at its start", log()[:700], CANNOT),
    Case("six of eight sections", log(shown=6), CANNOT, says=("6 of 8",)),
    Case(
        "one section of the log (-d MEMORY)",
        "==============NVSMI LOG==============\n\nDriver Version : 580.82.07\nCUDA Version : 13.0\n\n"
        "Attached GPUs : 1\nGPU 00000000:18:00.0\n    FB Memory Usage\n        Total : 81559 MiB\n"
        "        Reserved : 594 MiB\n        Used : 1 MiB\n        Free : 80965 MiB\n",
        CANNOT,
    ),
    Case(
        "no /proc",
        but(
            but(h100_node(), "host.system", missing("/proc", "not there")),
            "host.memory_total_bytes",
            missing("/proc/meminfo", "not there (is /proc mounted?)"),
        ),
        CANNOT,
        says=("/proc",),
    ),
    Case(
        "no /sys", but(h100_node(), "accelerators.pci", missing("/sys/bus/pci", "not mounted")), CANNOT, says=("/sys",)
    ),
    Case("torch gave no answer", torch_was(h100_node(), "no answer was kept", "failed"), CANNOT, says=("torch",)),
    Case(
        "torch did not say for which GPUs it is built",
        but(h100_node(), "training.torch.arch_list", ()),
        CANNOT,
        says=("kernels",),
    ),
    Case("seven GPUs of a board of eight", seven(), CANNOT, says=("7", "--expect")),
    Case(
        "all GPUs are hidden",
        with_environment(but(h100_node(), "cuda.visible.devices", ()), CUDA_VISIBLE_DEVICES=""),
        NOT,
        ("cuda-visible-devices-empty",),
    ),
)

STATUS = {READY: 0, WRONG: 0, NOT: 1, CANNOT: 3}


def reported(case: Case) -> Report:
    machine = case.given if isinstance(case.given, Snapshot) else snapshot_of(case.given.encode())
    return diagnose(machine, *chosen_checks(case.names), names=case.names)


@pytest.mark.parametrize("case", [*BROKEN, *HEALTHY, *PARTIAL], ids=lambda case: case.name.replace(" ", "-"))
def test_the_answer_and_what_it_rests_on(case: Case) -> None:
    report = reported(case)
    said = verdict(report)
    assert (report.verdict, report.exit_status) == (case.answer, STATUS[case.answer]), said
    assert set(case.findings) <= {result.check for result, _ in report.problems}
    assert all(word in said for word in case.says), said
    assert ("eady to train" in said) == (case.answer in (READY, NOT) and not case.names) or case.answer == NOT, said
    again = decode(encode(report), Report)
    assert (again.verdict, verdict(again)) == (report.verdict, said)
    text = line(report)
    assert text.startswith("GPUDOCTOR UNKNOWN") == (case.answer == CANNOT), text
    assert text.startswith("GPUDOCTOR CRITICAL") == (case.answer == NOT), text


@pytest.mark.parametrize(
    ("rows", "count"),
    [
        (((77, "C", "/opt/conda/bin/python " + "x" * 240, "1024 MiB"), (78, "C", "python", "12 MiB")), 2),
        (((900, "C+G", "C:\\Windows\\explorer.exe", "Not available in WDDM driver model"),), 1),
    ],
)
def test_one_odd_process_does_not_hide_the_list(rows: tuple[tuple[int, str, str, str], ...], count: int) -> None:
    machine = snapshot_of(log(count=1).replace(NONE, processes(*rows)).encode())
    found = machine.nvidia.gpus.value[0].processes.value
    assert len(found) == count and found[0].pid == rows[0][0]


def test_what_is_unknown_softens_the_words() -> None:
    for case in HEALTHY:
        if case.name == "a narrow link in a file":
            ((_, problem),) = [pair for pair in reported(case).problems if pair[0].check == "pcie-link-narrow"]
            assert "virtual machine" in problem.meaning + problem.fix.text


@pytest.mark.parametrize("text", ["", "8x", "xH100", "gpus=", "gpus=eight", "0xH100", "-1", "99999", "cpu=1"])
def test_a_wrong_expectation_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="8xH100"):
        Expectation.of(text)


def test_one_gpu_that_cannot_be_told_is_not_ready() -> None:
    machine = but_gpu(h100_node(), 3, name=missing("nvml", "no"), uuid=missing("nvml", "no"))
    assert diagnose(machine, *chosen_checks([])).verdict != READY


def test_the_gpus_of_a_node_without_any_are_not_called_well() -> None:
    """`check --nagios --no-torch gpu driver` in a prolog: all GPUs may be gone from the bus."""
    of_gpus = chosen_checks(["gpu", "driver"])
    assert diagnose(no_accelerator(), *of_gpus).exit_status == 3
    assert diagnose(wanting(no_accelerator(), "cpu"), *of_gpus).exit_status == 0
    assert diagnose(h100_node(), *of_gpus).exit_status == 0


def test_a_gpudoctor_without_checks_says_that_it_has_none() -> None:
    """As where it runs from a source folder: it has seen all, and judges nothing."""
    found = sight(h100_node(), ())
    assert found.lacking == (NO_CHECKS,)
