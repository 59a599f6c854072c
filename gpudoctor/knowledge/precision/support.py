"""Which dtype a device computes in by its hardware, which by conversion, and which not at all.

Sources: CUDA C++ Programming Guide, arithmetic throughput by compute capability (fp16 before tensor cores: 128, 2 and
256 operations a clock and multiprocessor for 6.0, 6.1 and 6.2); torch 2.13, testing/_internal/common_cuda.py (bf16 from
8.0, fp8 at 8.9 and from 9.0) and the conditions of torch._scaled_mm; Intel's and Arm's names of instruction sets as
Linux prints them in /proc/cpuinfo; AMD's ROCm documentation, "Data types and precision support".
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from gpudoctor.knowledge.pytorch.gpu_code import Capability, any_runs_on, shown
from gpudoctor.lazy import lazy_re

Dtype = Literal["fp16", "bf16", "tf32", "fp8"]
Support = Literal["hardware", "hardware, slow", "emulated", "build", "none", "unknown"]
DTYPES: tuple[Dtype, ...] = ("fp16", "bf16", "tf32", "fp8")

FIRST: dict[Dtype, Capability] = {"fp16": (7, 0), "bf16": (8, 0), "tf32": (8, 0), "fp8": (8, 9)}
"""The compute capability with which tensor cores for a dtype came."""
_NO_TENSOR_CORES = lazy_re(r"GTX 16\d\d|\bT(400|500|550|600|1000|1200|2000)\b|\bMX\s?[45]50\b")
"""Of compute capability 7.5: Turing's small chips TU116 and TU117 compute fp16 at twice the rate of fp32 without."""
_AMD_MATRIX = lazy_re(r"gfx(908|90a|94\d|950|11\d\d|12\d\d)")
"""MFMA of CDNA, WMMA of RDNA 3 and 4: fp16 and bf16."""


class Supported(NamedTuple):
    support: Support
    why: str
    """A phrase without a final period."""


class Hardware(NamedTuple):
    """What a worker tells of its device, as far as support depends on it."""

    kind: Literal["cuda", "rocm", "xpu", "cpu", "other"]
    name: str = ""
    capability: Capability | None = None
    architectures: tuple[str, ...] = ()
    """For which the torch build carries code: "sm_90"; () where it did not say."""
    amd_architecture: str = ""
    cpu_flags: tuple[str, ...] | None = None
    bf16_native: bool | None = None
    """torch.cuda.is_bf16_supported(including_emulation=False); None where torch cannot tell."""
    scaled_mm: bool = True
    """Whether this torch has torch._scaled_mm and a type for fp8."""


def supported(dtype: Dtype, hardware: Hardware) -> Supported:
    """How a device has a dtype."""
    if hardware.kind == "cpu":
        return _on_cpu(dtype, hardware)
    if hardware.kind == "rocm":
        return _on_rocm(dtype, hardware)
    if hardware.kind != "cuda" or hardware.capability is None:
        return Supported("unknown", "gpudoctor has no table of this kind of device; what ran is what counts")
    return _on_cuda(dtype, hardware, hardware.capability)


def has_tensor_cores(dtype: Dtype, name: str, capability: Capability | None) -> bool:
    """Whether an NVIDIA GPU has tensor cores that compute in this dtype."""
    if capability is None or capability < FIRST[dtype]:
        return False
    return not (capability == (7, 5) and _NO_TENSOR_CORES.search(name))


def _on_cuda(dtype: Dtype, hardware: Hardware, capability: Capability) -> Supported:
    if hardware.architectures and not any_runs_on(hardware.architectures, capability):
        return Supported(
            "build",
            f"this torch build has code for {', '.join(hardware.architectures)}, and none of it runs on "
            f"compute capability {shown(capability)}",
        )
    here, first = f"compute capability {shown(capability)}", shown(FIRST[dtype])
    if has_tensor_cores(dtype, hardware.name, capability):
        if dtype == "bf16" and hardware.bf16_native is False:
            return Supported("build", f"{here} has bf16, but torch.cuda.is_bf16_supported() denies it for this build")
        if dtype == "fp8" and not hardware.scaled_mm:
            return Supported("build", f"{here} has fp8, but this torch has no torch._scaled_mm to use it")
        return Supported("hardware", f"{here}: tensor cores")
    if dtype == "fp16":
        return _fp16_without_tensor_cores(capability, here)
    if dtype == "bf16":
        return Supported("emulated", f"{here}; bf16 came with {first}, and torch converts to fp32 and back")
    return Supported("none", f"{here}; tensor cores for {dtype} came with {first}")


def _fp16_without_tensor_cores(capability: Capability, here: str) -> Supported:
    if capability == (6, 1):
        return Supported("hardware, slow", f"{here}: fp16 at 1/64 of the rate of fp32")
    if capability >= (5, 3):
        return Supported("hardware", f"{here}: no tensor cores; fp16 at up to twice the rate of fp32")
    return Supported("emulated", f"{here} stores fp16 and computes in fp32")


def _on_rocm(dtype: Dtype, hardware: Hardware) -> Supported:
    architecture = hardware.amd_architecture.partition(":")[0]
    if dtype in ("fp16", "bf16") and _AMD_MATRIX.fullmatch(architecture):
        return Supported("hardware", f"{architecture}: matrix instructions")
    if dtype == "fp8":
        return Supported("unknown", "not tried on ROCm: the fp8 types of AMD's GPUs differ by model")
    if dtype == "tf32":
        return Supported("unknown", "not tried on ROCm")
    return Supported("unknown", f"gpudoctor's table does not have {architecture or 'this AMD GPU'}")


def _on_cpu(dtype: Dtype, hardware: Hardware) -> Supported:
    if dtype == "tf32":
        return Supported("none", "TF32 is a mode of NVIDIA's tensor cores")
    if dtype == "fp8":
        if not hardware.scaled_mm:
            return Supported("build", "this torch has no torch._scaled_mm")
        return Supported("emulated", "no CPU computes in fp8; torch converts")
    flags = hardware.cpu_flags
    if flags is None:
        return Supported("unknown", "the CPU's instructions could not be read from /proc/cpuinfo")
    fast = {"bf16": ("amx_bf16", "avx512_bf16", "bf16", "svebf16"), "fp16": ("amx_fp16",)}[dtype]
    fast_flags = [flag for flag in fast if flag in flags]
    if fast_flags:
        return Supported("hardware", f"the CPU has {' and '.join(fast_flags)}")
    slow = [flag for flag in ("avx512_fp16", "asimdhp") if flag in flags] if dtype == "fp16" else []
    if slow:
        return Supported("hardware, slow", f"the CPU has {slow[0]}, by which torch gains nothing over fp32")
    return Supported("emulated", f"the CPU has none of {', '.join(fast)}; torch converts to fp32 and back")


def least_for_fp8(capabilities: Sequence[Capability]) -> str:
    """ "fp8 needs compute capability 8.9" where none of these has it, else nothing."""
    lacking = bool(capabilities) and all(capability < FIRST["fp8"] for capability in capabilities)
    return f"fp8 needs compute capability {shown(FIRST['fp8'])}" if lacking else ""
