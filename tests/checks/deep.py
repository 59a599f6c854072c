"""Cases of the checks in checks/gpudoctor_checks/deep/."""

from typing import Any

from gpudoctor.snapshot import (
    AmpResult,
    AmpTarget,
    SmokeResult,
    SmokeTarget,
    Snapshot,
    TrainResult,
    missing,
    read,
)
from gpudoctor.testing.cases import error, info, silent, skipped, warning
from gpudoctor.testing.machines import but, but_gpu, h100_node, node, unread

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
    return but(machine, SMOKE, targets)


def lost(kind: Any, reason: str) -> Snapshot:
    """The same, but cuda:1 gave no answer."""
    targets = tested().active.smoke.value
    odd = SmokeTarget("cuda:1", missing("CUDA smoke test cuda:1", reason, kind))
    return but(h100_node(2), SMOKE, (targets[0], odd))


def on_cpu(machine: Snapshot) -> Snapshot:
    result = read("smoke", SmokeResult("cpu", relative_error=2.5e-7, seconds=1.2))
    return but(machine, SMOKE, (SmokeTarget("cpu", result),))


def mixed(*results: AmpResult, device: str = "cuda:1") -> Snapshot:
    """A machine on which fp16 and bf16 were tried; by default both passed."""
    found = {each.dtype: each for each in (PASSED_16, PASSED_BF16, *results)}
    target = AmpTarget(device, read("amp", tuple(found.values())))
    return but(h100_node(2), "active.amp", (target,))


def without_mixed(kind: Any, reason: str) -> Snapshot:
    target = AmpTarget("cuda:1", missing("mixed precision test cuda:1", reason, kind))
    return but(h100_node(2), "active.amp", (target,))


def trained(outcome: Any = "passed", **fields: Any) -> Snapshot:
    """A machine on which two processes trained together."""
    result = TrainResult("ddp", "fp32", "nccl", 2, outcome, **fields)
    return but(h100_node(2), "active.train", (result,))


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

CASES = {
    "smoke-failed": [
        error(
            tested(outcome="failed", error="a matrix product: RuntimeError: CUDA error: an illegal memory access"),
            "cuda:1 (nvidia-smi's GPU 1)",
            "an illegal memory access",
            runs="sudo dmesg -T | grep -iE 'nvrm|xid' | tail -n 20",
        ),
        error(
            tested(outcome="failed", error="the first allocation: OutOfMemoryError: CUDA out of memory."),
            runs="nvidia-smi",
        ),
        silent(tested(outcome="wrong-result")),
        skipped(TIMEOUT),
    ],
    "smoke-wrong-result": [
        error(
            tested(outcome="wrong-result", error="a 1024x1024 float32 product is off by 3.1e-03"),
            "cuda:1 (nvidia-smi's GPU 1)",
            "3.1e-03",
            runs="sudo dcgmi diag -r 3 -i 1",
        ),
        silent(on_cpu(node(()))),
        skipped(CRASH),
    ],
    "smoke-timeout": [
        error(
            TIMEOUT,
            "cuda:1 (nvidia-smi's GPU 1)",
            "a matrix product did not return within 30 s",
            runs="sudo nvidia-smi --gpu-reset -i 1",
        ),
        silent(CRASH),
        skipped(UNREAD),
    ],
    "host-copy-slow": [
        warning(tested(**SLOW), "cuda:1", "device to host at 12.1 GB/s", "PCIe 5 x16 allows 63.0"),
        info(but_gpu(tested(**SLOW, pcie_generation_loaded=None), 1, processes=read("nvml", ("another job",)))),
        # slow for the card, as fast as its link: another check's finding
        silent(tested(**GENERATION_3), on_cpu(node(()))),
        skipped(tested(host_to_device_bytes_per_second=None, device_to_host_bytes_per_second=None)),
        skipped(CRASH),
    ],
    "pcie-link-slow-under-load": [
        warning(
            tested(**GENERATION_3),
            "nvidia-smi's GPU 1",
            "PCIe 3",
            "PCIe 5",
            runs="sudo lspci -vv -s 0000:2b:00.0 | grep -E 'LnkCap|LnkSta'",
        ),
        silent(tested(pcie_width_loaded=8)),  # judged by pcie-link-narrow, without load
        silent(but_gpu(tested(**GENERATION_3), 1, name=read("nvml", "NVIDIA GH200 480GB"))),
        skipped(tested(pcie_generation_loaded=None)),
    ],
    "smoke-ran-on-cpu": [
        info(on_cpu(node(())), "CPU"),
        warning(on_cpu(h100_node(8)), "8 GPUs"),
        silent(tested()),
        skipped(UNREAD),
    ],
    "amp-wrong-result": [
        error(
            mixed(AmpResult("fp16", "hardware", "wrong-result", "transformer: the output is off by 0.31")),
            "cuda:1 (nvidia-smi's GPU 1)",
            "fp16",
            "0.31",
            runs="gpudoctor amp --device cuda:1 --dtype fp16",
        ),
        silent(mixed(AmpResult("fp16", "hardware", "failed", "GradScaler: no"))),
        skipped(without_mixed("failed", "import torch: killed by SIGSEGV")),
    ],
    "amp-failed": [
        error(
            mixed(AmpResult("fp16", "hardware", "failed", "GradScaler: the step was not skipped")),
            "cuda:1 (nvidia-smi's GPU 1)",
            "fp16",
            "was not skipped",
            runs="gpudoctor amp --device cuda:1",
        ),
        error(without_mixed("failed", "fp16: convolution: killed by SIGSEGV"), "SIGSEGV"),
        warning(mixed(AmpResult("bf16", "emulated", "failed", "convolution: the output is float32")), "bf16"),
        silent(mixed()),
        skipped(without_mixed("timeout", "fp16: convolution did not return within 30 s")),
    ],
    "amp-timeout": [
        error(
            without_mixed("timeout", "fp16: convolution did not return within 30 s"),
            "cuda:1",
            "did not return within 30 s",
            runs="gpudoctor amp --device cuda:1 --timeout 300",
        ),
        error(
            mixed(AmpResult("bf16", "hardware", "timeout", "transformer did not return within 30 s")),
            "bf16: transformer did not return",
        ),
        silent(without_mixed("failed", "killed by SIGSEGV")),
        skipped(NO_AMP),
    ],
    "train-ddp-differs": [
        error(DIFFERS, "rank 1's gradient of blocks.1.weight", "step 2", "nccl", runs="gpudoctor train-test"),
        silent(trained("hung")),
        skipped(NO_TRAIN),
    ],
    "train-ddp-failed": [
        error(
            trained("crashed", error="rank 1 on here was killed by SIGSEGV", finding="rank-died"),
            "over nccl",
            "killed by SIGSEGV",
            runs="gpudoctor train-test --strategy ddp",
        ),
        error(trained("failed", error="ddp fp32 failed: RuntimeError: x", finding="train-failed")),
        silent(DIFFERS),
        skipped(NO_TRAIN),
    ],
    "train-ddp-hung": [
        error(
            trained("hung", error="rank 1 is behind", finding="slow-rank-timeout"), "stood still", "rank 1 is behind"
        ),
        silent(trained("crashed")),
        skipped(NO_TRAIN),
    ],
}
