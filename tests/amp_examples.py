"""Answers of `gpudoctor amp` as docs and tests show them: hand-made figures, judged by the program itself."""

from collections.abc import Callable

import msgspec

from gpudoctor.amp.judge import judge
from gpudoctor.amp.report import AmpDevice, AmpReport, ComparedNet, Precision, Scaled, Speed
from gpudoctor.knowledge.precision.factors import expected_factor
from gpudoctor.knowledge.precision.limits import LIMITS
from gpudoctor.knowledge.precision.support import DTYPES, Dtype, Hardware, supported

VERSIONS = {"torch": "2.13.0+cu130", "lightning": "2.6.6", "accelerate": "1.15.0"}
SWITCHES = {
    "torch.backends.cuda.matmul.fp32_precision": "none",
    "torch.backends.cudnn.conv.fp32_precision": "tf32",
}
ERRORS = {"fp16": (6.2e-4, 7.1e-4), "bf16": (4.9e-3, 5.4e-3)}
SIZE = "4096x4096x4096"
MIB = 1024**2
SCALER = Scaled(outcome="passed", scale_before=65536.0, scale_after=32768.0, skipped=True, recovered=True)


def compared(dtype: Dtype, **odd: object) -> tuple[ComparedNet, ...]:
    """Both nets; `odd` is what is otherwise of the transformer."""
    output, gradient = ERRORS[dtype]
    limit = LIMITS[dtype]
    convolution = ComparedNet(
        net="convolution",
        outcome="passed",
        output_error=output,
        gradient_error=gradient,
        gradient_cosine=0.99998,
        limit_output=limit.output,
        limit_gradient=limit.gradient,
        limit_cosine=limit.cosine,
        worst_parameter="3.weight",
    )
    transformer: dict[str, object] = {
        "net": "transformer",
        "output_error": output * 0.6,
        "gradient_error": gradient * 0.6,
        "worst_parameter": "0.qkv.weight",
    }
    return convolution, msgspec.structs.replace(convolution, **(transformer | odd))


def speed(dtype: Dtype, hardware: Hardware, teraflops: float, fp32_teraflops: float) -> Speed:
    """A product of 4096 x 4096 matrices at these rates."""
    work = 2 * 4096**3 / 1e12
    return Speed(
        what="matmul",
        size=SIZE,
        seconds=work / teraflops,
        fp32_seconds=work / fp32_teraflops,
        teraflops=teraflops,
        expected_factor=expected_factor(dtype, hardware.name, hardware.capability),
    )


def precision(dtype: Dtype, hardware: Hardware, **fields: object) -> Precision:
    support = supported(dtype, hardware)
    return msgspec.structs.replace(Precision(dtype=dtype, support=support.support, why=support.why), **fields)


def works(dtype: Dtype, hardware: Hardware, teraflops: float, fp32_teraflops: float, **fields: object) -> Precision:
    """fp16 or bf16 that passed."""
    given: dict[str, object] = {
        "outcome": "passed",
        "compared": compared(dtype),
        "scaler": SCALER if dtype == "fp16" else Scaled(outcome="not needed"),
        "speeds": (speed(dtype, hardware, teraflops, fp32_teraflops),),
        "memory_fp32_bytes": 412 * MIB,
        "memory_bytes": 268 * MIB,
        "overflow": dtype == "fp16",
        "compiled": "passed" if dtype == "fp16" else "",
    }
    return precision(dtype, hardware, **(given | fields))


def device(hardware: Hardware, *precisions: Precision, index: int = 0, seconds: float = 9.4) -> AmpDevice:
    tested = {each.dtype: each for each in precisions}
    return AmpDevice(
        device=f"cuda:{index}",
        name=hardware.name,
        capability=hardware.capability,
        torch=VERSIONS["torch"],
        precisions=tuple(tested.get(dtype) or precision(dtype, hardware) for dtype in DTYPES),
        reference_error=2.1e-6,
        switches=SWITCHES,
        seconds=seconds,
    )


T4 = Hardware("cuda", "Tesla T4", (7, 5), ("sm_75", "sm_80", "sm_90"), bf16_native=False)
H100 = Hardware("cuda", "NVIDIA H100 80GB HBM3", (9, 0), ("sm_80", "sm_90"), bf16_native=True)


def t4() -> AmpReport:
    """A T4: torch.cuda.is_bf16_supported() says yes, by emulation."""
    return answer(device(T4, works("fp16", T4, 24.0, 4.1), works("bf16", T4, 2.3, 4.1)))


def h100_broken_scaler() -> AmpReport:
    """An H100 whose GradScaler was patched by something loaded into the interpreter: an overflow is not skipped."""
    scaler = msgspec.structs.replace(
        SCALER,
        outcome="failed",
        skipped=False,
        scale_after=None,
        recovered=None,
        error="a gradient was inf, and the step was not skipped: the parameters are damaged",
    )
    fp16 = works("fp16", H100, 610.0, 48.0, outcome="failed", scaler=scaler)
    return answer(device(H100, fp16, works("bf16", H100, 622.0, 48.0)))


def answer(*devices: AmpDevice) -> AmpReport:
    return msgspec.structs.replace(judge(devices, VERSIONS), gpudoctor="0.1.0", versions=VERSIONS)


EXAMPLES: dict[str, Callable[[], AmpReport]] = {"amp-t4": t4}
