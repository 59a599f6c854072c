"""Cases of the checks in checks/gpudoctor_checks/deep/."""

from typing import Any

from gpudoctor.snapshot import SmokeResult, SmokeTarget, Snapshot, missing, read
from tests.build import but, but_gpu, h100_node, node, unread
from tests.cases import Case

SMOKE = "active.smoke"
HEALTHY: dict[str, Any] = {
    "relative_error": 2.5e-7,
    "host_to_device_bytes_per_second": 55.0e9,
    "device_to_host_bytes_per_second": 53.0e9,
    "pcie_generation_loaded": 5,
    "pcie_width_loaded": 16,
    "seconds": 4.0,
}


def tested(**odd: Any) -> Snapshot:
    """Two H100s after a smoke test; `odd` is what cuda:1 answered otherwise."""
    machine = h100_node(2)
    uuids = [gpu.uuid.value.removeprefix("GPU-") for gpu in machine.nvidia.gpus.value]
    results = [SmokeResult("cuda:0", uuids[0], **HEALTHY), SmokeResult("cuda:1", uuids[1], **(HEALTHY | odd))]
    targets = tuple(SmokeTarget(result.device, read("smoke", result)) for result in results)
    return but(machine, SMOKE, read("CUDA smoke test", targets))


def lost(kind: Any, reason: str) -> Snapshot:
    """The same, but cuda:1 gave no answer."""
    targets = tested().active.smoke.value
    odd = SmokeTarget("cuda:1", missing("CUDA smoke test cuda:1", reason, kind))
    return but(h100_node(2), SMOKE, read("CUDA smoke test", (targets[0], odd)))


def on_cpu(machine: Snapshot) -> Snapshot:
    result = read("smoke", SmokeResult("cpu", relative_error=2.5e-7, seconds=1.2))
    return but(machine, SMOKE, read("CUDA smoke test", (SmokeTarget("cpu", result),)))


TIMEOUT = lost("timeout", "a matrix product did not return within 30 s")
CRASH = lost("failed", "the first allocation: killed by SIGSEGV")
UNREAD = but(h100_node(2), SMOKE, unread())
SLOW = {"device_to_host_bytes_per_second": 12.1e9}
GENERATION_3 = {
    "pcie_generation_loaded": 3,
    "host_to_device_bytes_per_second": 12.9e9,
    "device_to_host_bytes_per_second": 12.1e9,
}

CASES = [
    Case(
        "smoke-failed",
        fires=tested(outcome="failed", error="a matrix product: RuntimeError: CUDA error: an illegal memory access"),
        silent=tested(outcome="wrong-result"),
        unread=TIMEOUT,
        says=("cuda:1 (nvidia-smi's GPU 1)", "an illegal memory access"),
        commands=("sudo dmesg -T | grep -iE 'nvrm|xid' | tail -n 20",),
    ),
    Case("smoke-failed", fires=CRASH, silent=on_cpu(node(())), unread=UNREAD, says=("killed by SIGSEGV",)),
    Case(
        "smoke-failed",
        fires=tested(outcome="failed", error="the first allocation: OutOfMemoryError: CUDA out of memory."),
        commands=("nvidia-smi",),
    ),
    Case(
        "smoke-wrong-result",
        fires=tested(outcome="wrong-result", error="a 1024x1024 float32 product is off by 3.1e-03"),
        silent=on_cpu(node(())),
        unread=CRASH,
        says=("cuda:1 (nvidia-smi's GPU 1)", "3.1e-03"),
        commands=("sudo dcgmi diag -r 3 -i 1",),
    ),
    Case(
        "smoke-timeout",
        fires=TIMEOUT,
        silent=CRASH,
        unread=UNREAD,
        says=("cuda:1 (nvidia-smi's GPU 1)", "a matrix product did not return within 30 s"),
        commands=("sudo nvidia-smi --gpu-reset -i 1",),
    ),
    Case(
        "host-copy-slow",
        fires=tested(**SLOW),
        silent=tested(**GENERATION_3),  # slow for the card, as fast as its link: another check's finding
        unread=tested(host_to_device_bytes_per_second=None, device_to_host_bytes_per_second=None),
        severity="warning",
        says=("cuda:1", "device to host at 12.1 GB/s", "PCIe 5 x16 allows 63.0"),
    ),
    Case(
        "host-copy-slow",
        fires=but_gpu(tested(**SLOW, pcie_generation_loaded=None), 1, processes=read("nvml", ("another job",))),
        silent=on_cpu(node(())),
        unread=CRASH,
        severity="info",
    ),
    Case(
        "pcie-link-slow-under-load",
        fires=tested(**GENERATION_3),
        silent=tested(pcie_width_loaded=8),  # judged by pcie-link-narrow, without load
        unread=tested(pcie_generation_loaded=None),
        severity="warning",
        says=("nvidia-smi's GPU 1", "PCIe 3", "PCIe 5"),
        commands=("sudo lspci -vv -s 0000:2b:00.0 | grep -E 'LnkCap|LnkSta'",),
    ),
    Case(
        "pcie-link-slow-under-load",
        fires=tested(**GENERATION_3),
        silent=but_gpu(tested(**GENERATION_3), 1, name=read("nvml", "NVIDIA GH200 480GB")),
        severity="warning",
    ),
    Case(
        "smoke-ran-on-cpu",
        fires=on_cpu(node(())),
        silent=tested(),
        unread=UNREAD,
        severity="info",
        says=("CPU",),
    ),
    Case("smoke-ran-on-cpu", fires=on_cpu(h100_node(8)), severity="warning", says=("8 GPUs",)),
]
