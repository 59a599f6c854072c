"""Cases of the checks in checks/gpudoctor_checks/deep/."""

from typing import Any

from gpudoctor.snapshot import (
    AmpResult,
    AmpTarget,
    SmokeResult,
    SmokeTarget,
    Snapshot,
    TrainResult,
    absent,
    missing,
    read,
)
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


def mixed(*results: AmpResult, device: str = "cuda:1") -> Snapshot:
    """A machine on which fp16 and bf16 were tried; by default both passed."""
    found = {each.dtype: each for each in (PASSED_16, PASSED_BF16, *results)}
    target = AmpTarget(device, read("amp", tuple(found.values())))
    return but(h100_node(2), "active.amp", read("mixed precision test", (target,)))


def without_mixed(kind: Any, reason: str) -> Snapshot:
    target = AmpTarget("cuda:1", missing("mixed precision test cuda:1", reason, kind))
    return but(h100_node(2), "active.amp", read("mixed precision test", (target,)))


def trained(outcome: Any = "passed", **fields: Any) -> Snapshot:
    """A machine on which two processes trained together."""
    result = TrainResult("ddp", "fp32", "nccl", 2, outcome, **fields)
    return but(h100_node(2), "active.train", read("training test", (result,)))


PASSED_16 = AmpResult("fp16", "hardware", "passed", output_error=6e-4, gradient_error=7e-4)
PASSED_BF16 = AmpResult("bf16", "hardware", "passed", output_error=4e-3, gradient_error=5e-3)
NO_AMP = but(h100_node(2), "active.amp", unread())
NO_TRAIN = but(h100_node(2), "active.train", unread())
DIFFERS = trained(
    "failed", error="ddp fp32: rank 1's gradient of blocks.1.weight differs at step 2", finding="train-gradient-differs"
)

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
    Case(
        "amp-wrong-result",
        fires=mixed(AmpResult("fp16", "hardware", "wrong-result", "transformer: the output is off by 0.31")),
        silent=mixed(AmpResult("fp16", "hardware", "failed", "GradScaler: no")),
        unread=without_mixed("failed", "import torch: killed by SIGSEGV"),
        says=("cuda:1 (nvidia-smi's GPU 1)", "fp16", "0.31"),
        commands=("gpudoctor amp --device cuda:1 --dtype fp16",),
    ),
    Case(
        "amp-failed",
        fires=mixed(AmpResult("fp16", "hardware", "failed", "GradScaler: the step was not skipped")),
        silent=mixed(),
        unread=without_mixed("timeout", "fp16: convolution did not return within 30 s"),
        says=("cuda:1 (nvidia-smi's GPU 1)", "fp16", "was not skipped"),
        commands=("gpudoctor amp --device cuda:1",),
    ),
    Case(
        "amp-failed",
        fires=without_mixed("failed", "fp16: convolution: killed by SIGSEGV"),
        silent=mixed(AmpResult("bf16", "build", "not applicable")),
        unread=NO_AMP,
        says=("SIGSEGV",),
    ),
    Case(
        "amp-failed",
        fires=mixed(AmpResult("bf16", "emulated", "failed", "convolution: the output is float32")),
        severity="warning",
        says=("bf16",),
    ),
    Case(
        "amp-timeout",
        fires=without_mixed("timeout", "fp16: convolution did not return within 30 s"),
        silent=without_mixed("failed", "killed by SIGSEGV"),
        unread=NO_AMP,
        says=("cuda:1", "did not return within 30 s"),
        commands=("gpudoctor amp --device cuda:1 --timeout 300",),
    ),
    Case(
        "amp-timeout",
        fires=mixed(AmpResult("bf16", "hardware", "timeout", "transformer did not return within 30 s")),
        says=("bf16: transformer did not return",),
    ),
    Case(
        "train-ddp-differs",
        fires=DIFFERS,
        silent=trained("hung"),
        unread=NO_TRAIN,
        says=("rank 1's gradient of blocks.1.weight", "step 2", "nccl"),
        commands=("gpudoctor train-test",),
    ),
    Case("train-ddp-differs", fires=trained("failed", finding="train-loss-differs"), silent=trained()),
    Case(
        "train-ddp-failed",
        fires=trained("crashed", error="rank 1 on here was killed by SIGSEGV", finding="rank-killed"),
        silent=DIFFERS,
        unread=NO_TRAIN,
        says=("over nccl", "killed by SIGSEGV"),
        commands=("gpudoctor train-test --strategy ddp",),
    ),
    Case(
        "train-ddp-failed",
        fires=trained("failed", error="ddp fp32 failed: RuntimeError: x", finding="train-failed"),
        silent=but(h100_node(2), "active.train", absent("training test", "this torch has no torch.distributed")),
    ),
    Case(
        "train-ddp-hung",
        fires=trained("hung", error="rank 1 is behind", finding="rank-behind"),
        silent=trained("crashed"),
        unread=NO_TRAIN,
        says=("stood still", "rank 1 is behind"),
    ),
]
