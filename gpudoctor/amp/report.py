"""The answer of `gpudoctor amp`, as published with --json; its parts are what workers/amp.py measures."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from msgspec import Struct, field

from gpudoctor.check import Problem
from gpudoctor.envelope import Answer, Stated, stated

Support = Literal["hardware", "hardware, slow", "emulated", "build", "none", "unknown"]
"""hardware: tensor cores, or a CPU's own instructions. "hardware, slow": native without a gain (fp16 on 6.1, on most
CPUs). emulated: by conversion to fp32. build: the GPU could, this torch build cannot. none: not at all."""


class ComparedNet(Struct, frozen=True, kw_only=True):
    """A small net's losses and gradients under autocast against fp32 with TF32 off."""

    net: Literal["convolution", "transformer", "matmul"]
    """matmul: a product of matrices alone, for fp8 and for what switching TF32 on changes."""
    outcome: Literal["passed", "wrong-result", "failed"]
    output_error: float | None = None
    """Relative L2."""
    gradient_error: float | None = None
    """Relative L2 over all parameters."""
    gradient_cosine: float | None = None
    limit_output: float = 0.0
    limit_gradient: float = 0.0
    limit_cosine: float = 0.0
    worst_parameter: str = ""
    error: str = ""
    """The exception, or what was wrong: "the output is float32: autocast did nothing"."""


class Scaled(Struct, frozen=True, kw_only=True):
    """GradScaler with a forced overflow."""

    outcome: Literal["passed", "failed", "not needed"]
    scale_before: float | None = None
    scale_after: float | None = None
    skipped: bool | None = None
    """Whether the step with the overflow left the parameters alone."""
    recovered: bool | None = None
    """Whether the next normal step changed them."""
    error: str = ""


class Speed(Struct, frozen=True, kw_only=True):
    """Against fp32 (TF32 off) on the same device."""

    what: Literal["matmul", "convolution", "convolution channels_last", "transformer compiled"]
    size: str
    """ "4096x4096x4096"."""
    seconds: float
    fp32_seconds: float
    teraflops: float | None = None
    expected_factor: float | None = None
    """What this generation should give, of the vendor's figures; None where nothing is published."""
    error: str = ""

    @property
    def factor(self) -> float:
        return self.fp32_seconds / self.seconds if self.seconds else 0.0


class Precision(Struct, frozen=True, kw_only=True):
    """One dtype on one device."""

    dtype: Literal["fp16", "bf16", "tf32", "fp8"]
    support: Support
    why: str = ""
    """ "compute capability 7.5; tensor cores for bf16 came with 8.0"."""
    outcome: Literal["passed", "wrong-result", "failed", "not applicable", "timeout"] = "not applicable"
    compared: tuple[ComparedNet, ...] = ()
    scaler: Scaled | None = None
    speeds: tuple[Speed, ...] = ()
    memory_fp32_bytes: int | None = None
    """Peak of a training step of the transformer in fp32."""
    memory_bytes: int | None = None
    overflow: bool | None = None
    """Whether a product of 256 x 400 overflows to inf, as in fp16 it must and in bf16 must not."""
    compiled: str = ""
    """What torch.compile with autocast gave: "passed", "not applicable: ...", "failed: ..."."""
    error: str = ""


class AmpDevice(Struct, frozen=True, kw_only=True):
    device: str
    """ "cuda:0", "cpu"."""
    name: str = ""
    capability: tuple[int, int] | None = None
    torch: str = ""
    precisions: tuple[Precision, ...] = ()
    reference_error: float | None = None
    """Relative L2 of the nets in fp32 with TF32 off against float64 on the CPU: whether fp32 itself is right here."""
    switches: dict[str, str] = {}
    """TF32 as it is set: "torch.backends.cuda.matmul.fp32_precision" -> "none", ..."""
    seconds: float = 0.0
    error: str = ""
    """Why nothing was measured: deadline, crash, no such device."""


class AmpAdvice(Struct, frozen=True, kw_only=True):
    """Which precision to use, and how to spell it."""

    precision: Literal["bf16", "fp16", "fp32"]
    why: str
    spelled: dict[str, str] = {}
    """ "torch", "Lightning 2.6", "accelerate 1.15", "DeepSpeed" -> lines or option."""


class AmpProblem(Problem, frozen=True, kw_only=True):
    """What is wrong on a device."""

    id: str = ""
    device: str = ""


class AmpReport(Answer, frozen=True, kw_only=True):
    command: ClassVar[str] = "amp"
    signs: ClassVar[tuple[str, ...]] = ("schema", "devices")
    versions: dict[str, str] = field(default_factory=dict)
    """Of the training interpreter's distributions that have a word for precision: torch, lightning, accelerate, ..."""
    why_devices: str = ""
    """Why these devices, where nobody named them: "no GPU is usable by this torch: tested on the CPU"."""
    devices: tuple[AmpDevice, ...] = ()
    advice: AmpAdvice | None = None
    problems: tuple[AmpProblem, ...] = ()
    seconds: float = 0.0

    @property
    def exit_status(self) -> int:
        """1 when a precision that should work does not, or a device cannot be used; 3 when none was there to test."""
        if not self.devices:
            return 3
        return int(any(problem.severity == "error" for problem in self.problems))

    def about(self) -> str:
        return ", ".join(f"{device.device} {device.name}".strip() for device in self.devices)

    def stated(self) -> Iterator[Stated]:
        yield from (stated(problem.id, problem, problem.device or None) for problem in self.problems)
