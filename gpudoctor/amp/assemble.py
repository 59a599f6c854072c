"""What workers/amp.py said -> `AmpDevice`: every number held against its limit, and nothing taken for granted.

A dtype has passed only when the worker said that it was finished, its output was of the low dtype, so was every
layer's, and the numbers are within their limits. What a crash or a deadline cut off says so.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Struct

from gpudoctor.amp.report import AmpDevice, ComparedNet, Precision, Scaled, Speed
from gpudoctor.knowledge.precision import limits
from gpudoctor.knowledge.precision.factors import expected_factor
from gpudoctor.knowledge.precision.support import Dtype, Hardware, Supported, supported
from gpudoctor.read.python import describe
from gpudoctor.snapshot import Probe

T = TypeVar("T")
Said = Sequence[Mapping[str, Any]]
LOW = {"fp16": "float16", "bf16": "bfloat16", "tf32": "float32", "fp8": "bfloat16"}
MAXIMUM_PARTS = 32
"""Of one kind in one dtype; a worker says a handful."""


class ToldDevice(Struct, frozen=True):
    """What a worker says of its device, over several messages."""

    torch: str = ""
    name: str = ""
    switches: dict[str, str] = {}
    capability: tuple[int, int] | None = None
    arch_list: tuple[str, ...] = ()
    amd_architecture: str = ""
    cpu_flags: tuple[str, ...] | None = None
    bf16_native: bool | None = None
    scaled_mm: bool = False
    reference_error: float | None = None


class ToldCompared(Struct, frozen=True):
    net: str
    output_error: float | None = None
    gradient_error: float | None = None
    gradient_cosine: float | None = None
    worst_parameter: str = ""
    worst_error: float | None = None
    out_dtype: str = ""
    layers_elsewhere: tuple[str, ...] = ()
    finite: bool = False
    off_error: float | None = None
    """TF32: the same product's error with TF32 off."""
    rounding_error: float | None = None
    """fp8: what its coarse inputs cost."""


class ToldScaler(Struct, frozen=True):
    absent: str = ""
    enabled: bool = False
    scale_before: float | None = None
    gradient_error: float | None = None
    moved: bool | None = None
    scale_after_normal: float | None = None
    skipped: bool | None = None
    scale_after: float | None = None
    recovered: bool | None = None
    scale_reloaded: float | None = None


class ToldSpeed(Struct, frozen=True):
    what: str
    size: str
    seconds: float
    fp32_seconds: float
    teraflops: float | None = None


class ToldCompiled(Struct, frozen=True):
    absent: str = ""
    error: float | None = None
    out_dtype: str = ""


def device(
    name: str,
    dtypes: Sequence[Dtype],
    said: Said,
    probe: Probe,
    seconds: float,
    compiled: tuple[Said, Probe] | None = None,
) -> AmpDevice:
    """One device from its worker's messages and how the worker ended; `compiled` from the one that compiled."""
    told = told_device(said)
    hardware = hardware_of(name, told)
    measured = any("dtype" in message and "doing" not in message for message in said)
    if not measured and probe.outcome != "answered":
        return AmpDevice(
            device=name, name=told.name, capability=told.capability, torch=told.torch, switches=told.switches,
            seconds=seconds, error=describe(probe),
        )  # fmt: skip
    precisions = [precision(dtype, hardware, said, probe) for dtype in dtypes]
    if compiled is not None:
        precisions = with_compiled(precisions, *compiled)
    return AmpDevice(
        device=name,
        name=told.name,
        capability=told.capability,
        torch=told.torch,
        precisions=tuple(precisions),
        switches=told.switches,
        reference_error=told.reference_error,
        seconds=seconds,
    )


def told_device(said: Said) -> ToldDevice:
    """What was said of the device; a fact of an unexpected form is left out."""
    facts: dict[str, Any] = {}
    for message in said:
        part = message.get("device")
        if isinstance(part, dict):
            facts |= {key: value for key, value in part.items() if converted({key: value}, ToldDevice) is not None}
    return converted(facts, ToldDevice) or ToldDevice()


def converted(part: object, form: type[T]) -> T | None:
    try:
        return msgspec.convert(part, form)
    except msgspec.ValidationError:
        return None


def hardware_of(name: str, said: ToldDevice) -> Hardware:
    kind = name.partition(":")[0]
    if kind == "cuda" and said.amd_architecture:
        kind = "rocm"
    return Hardware(
        kind=cast(Any, kind if kind in ("cuda", "rocm", "xpu", "cpu") else "other"),
        name=said.name,
        capability=said.capability,
        architectures=said.arch_list,
        amd_architecture=said.amd_architecture,
        cpu_flags=said.cpu_flags,
        bf16_native=said.bf16_native,
        scaled_mm=said.scaled_mm,
    )


def precision(dtype: Dtype, hardware: Hardware, said: Said, probe: Probe) -> Precision:
    """One dtype."""
    support = supported(dtype, hardware)
    parts = [message for message in said if message.get("dtype") == dtype]
    disabled = [str(message["disabled"]) for message in parts if "disabled" in message]
    if disabled:
        return autocast_disabled(dtype, support, disabled[0], hardware)
    lacking = next((str(m["failed"]) for m in parts if "failed" in m and not_implemented(str(m["failed"]))), "")
    if lacking and hardware.kind == "cpu":
        return Precision(
            dtype=dtype,
            support="build",
            why=f"this torch lacks it: {first_sentence(lacking)}",
            outcome="not applicable",
        )
    compared = comparisons(dtype, parts)
    scaler = scaled(dtype, parts)
    overflow = next((message["overflow"] for message in parts if isinstance(message.get("overflow"), bool)), None)
    errors = [failure(message) for message in parts if "failed" in message]
    needed = [failure(message) for message in parts if "failed" in message and not message.get("optional")]
    errors += [f"{message['not_timed']}: not measured, for time ran out" for message in parts if "not_timed" in message]
    outcome: Any = "passed"
    if (dtype == "fp16" and overflow is False) or (dtype == "bf16" and overflow is True):
        outcome = "wrong-result"
        errors.insert(0, overflowed(dtype))
    elif any(net.outcome == "wrong-result" for net in compared):
        outcome = "wrong-result"
    elif needed or any(net.outcome == "failed" for net in compared) or (scaler and scaler.outcome == "failed"):
        outcome = "failed"
    elif not any("finished" in message for message in parts):
        outcome, why = unfinished(dtype, support, parts, probe)
        errors += [why] if why else []
    elif not compared or (dtype in ("fp16", "bf16") and (len(compared) < 2 or overflow is None)):
        outcome, errors = "failed", [*errors, "the worker called it finished and did not say all of its results"]
    elif probe.outcome == "hung" and under_way(said) == dtype:
        outcome, errors = "timeout", [*errors, describe(probe)]
    memory = next((pair for pair in (converted(m.get("memory"), tuple[int, int]) for m in parts) if pair), None)
    return Precision(
        dtype=dtype,
        support=support.support,
        why=support.why,
        outcome=outcome,
        compared=compared,
        scaler=scaler,
        speeds=speeds(dtype, parts, hardware),
        memory_fp32_bytes=memory[0] if memory else None,
        memory_bytes=memory[1] if memory else None,
        overflow=overflow,
        error="; ".join(errors)[:1000],
    )


def under_way(said: Said) -> object:
    """The dtype of the step that was announced last; None before the first of a dtype."""
    return next((message.get("dtype") for message in reversed(said) if "doing" in message), None)


def overflowed(dtype: Dtype) -> str:
    if dtype == "fp16":
        return "a sum of 102400 did not become inf, as in fp16 it must: the product was not computed in fp16"
    return "a sum of 102400 became inf, which bf16 holds: the product was computed in another type"


def not_implemented(error: str) -> bool:
    """torch's words for an operation that a device's kernels lack: CPUs got theirs for fp16 and fp8 over years."""
    return "not implemented" in error or error.startswith("NotImplementedError")


def first_sentence(text: str) -> str:
    """torch's dispatcher lists every backend after it."""
    return text.partition(". ")[0][:200].rstrip(".")


def failure(message: Mapping[str, Any]) -> str:
    return f"{message.get('step', 'a step')}: {message['failed']}"


def autocast_disabled(dtype: Dtype, support: Supported, why: str, hardware: Hardware) -> Precision:
    """On a CPU, autocast takes fp16 since some release of torch, and warns before; without a word it is a fault."""
    if hardware.kind == "cpu" and why:
        return Precision(dtype=dtype, support="build", why=why, outcome="not applicable")
    return Precision(
        dtype=dtype,
        support=support.support,
        why=support.why,
        outcome="failed",
        error=why or "autocast disabled itself, without a word",
    )


def unfinished(dtype: Dtype, support: Supported, parts: Said, probe: Probe) -> tuple[str, str]:
    """The outcome of a dtype that the worker did not get through, and why."""
    if probe.outcome == "answered":
        # It left out what the device cannot have; anything else that it left out is not known to work.
        if dtype in ("tf32", "fp8") and support.support in ("none", "build", "unknown"):
            return "not applicable", ""
        return "failed", "the worker did not say what it found"
    begun = bool(parts)
    why = describe(probe) if begun else f"not tested, for before it: {describe(probe)}"
    return ("timeout" if probe.outcome == "hung" else "failed"), why


def comparisons(dtype: Dtype, parts: Said) -> tuple[ComparedNet, ...]:
    """Each net's numbers, judged; a net whose step raised is there with the exception."""
    by_net: dict[str, ComparedNet] = {}
    for message in parts[: 4 * MAXIMUM_PARTS]:
        compared = converted(message.get("compared"), ToldCompared)
        net = str(message.get("net", ""))
        if compared is not None and compared.net in ("convolution", "transformer", "matmul"):
            by_net[compared.net] = compare(dtype, compared)
        elif "failed" in message and net in ("convolution", "transformer", "matmul"):
            by_net.setdefault(net, ComparedNet(net=cast(Any, net), outcome="failed", error=str(message["failed"])))
    return tuple(by_net.values())


def compare(dtype: Dtype, compared: ToldCompared) -> ComparedNet:
    limit = limits.LIMITS[dtype]
    outcome, error = judged(dtype, compared, limit)
    is_product = compared.net == "matmul"
    return ComparedNet(
        net=cast(Any, compared.net),
        outcome=cast(Any, outcome),
        output_error=compared.output_error,
        gradient_error=compared.gradient_error,
        gradient_cosine=compared.gradient_cosine,
        limit_output=limit.output,
        limit_gradient=0.0 if is_product else limit.gradient,
        limit_cosine=0.0 if is_product else limit.cosine,
        worst_parameter=compared.worst_parameter,
        error=error,
    )


def judged(dtype: Dtype, compared: ToldCompared, limit: limits.Limit) -> tuple[str, str]:
    """The outcome and what was wrong, the most telling first."""
    if compared.out_dtype != LOW[dtype]:
        did = ": autocast did nothing" if compared.out_dtype == "float32" and dtype in ("fp16", "bf16") else ""
        return "failed", f"the output is {compared.out_dtype or 'of unknown type'} and not {LOW[dtype]}{did}"
    if compared.layers_elsewhere:
        return "failed", f"layers that were not computed in {LOW[dtype]}: {', '.join(compared.layers_elsewhere)}"
    if not compared.finite:
        return "wrong-result", "the output or a gradient is not finite"
    if compared.output_error is None or compared.output_error > limit.output:
        return "wrong-result", f"the output is off by {shown(compared.output_error)}; the limit is {limit.output:g}"
    if compared.net == "matmul":
        if dtype == "tf32" and compared.output_error < limits.TF32_VISIBLE:
            return "failed", (
                f"switching TF32 on changed nothing: the product is off by {shown(compared.output_error)}, "
                "and TF32 rounds by about 3e-04"
            )
        return "passed", ""
    if compared.gradient_error is None or compared.gradient_error > limit.gradient:
        return "wrong-result", (
            f"the gradients are off by {shown(compared.gradient_error)}, most of all that of"
            f" {compared.worst_parameter}; the limit is {limit.gradient:g}"
        )
    if compared.worst_error is None or compared.worst_error > limit.parameter:
        return "wrong-result", (
            f"the gradient of {compared.worst_parameter} is off by {shown(compared.worst_error)}; "
            f"the limit is {limit.parameter:g}"
        )
    if compared.gradient_cosine is None or compared.gradient_cosine < limit.cosine:
        return "wrong-result", (
            f"the gradients point elsewhere: cosine {compared.gradient_cosine or 0:.4f}, least {limit.cosine}"
        )
    return "passed", ""


def shown(error: float | None) -> str:
    return "an unknown amount" if error is None else f"{error:.1e}"


def scaled(dtype: Dtype, parts: Said) -> Scaled | None:
    """GradScaler's part: the last, most complete message; for bf16, that none is needed."""
    if dtype == "bf16":
        return Scaled(outcome="not needed")
    if dtype != "fp16":
        return None
    failed = next(
        (failure(message) for message in parts if "failed" in message and message.get("step") == "GradScaler"), ""
    )
    scaler = next(
        (scaler for scaler in (converted(m.get("scaler"), ToldScaler) for m in reversed(parts)) if scaler), None
    )
    if scaler is None:
        return Scaled(outcome="failed", error=failed) if failed else None
    if scaler.absent:
        return Scaled(outcome="not needed", error=scaler.absent)
    error = failed or wrong_scaler(scaler)
    return Scaled(
        outcome="failed" if error else "passed",
        scale_before=scaler.scale_before,
        scale_after=scaler.scale_after,
        skipped=scaler.skipped,
        recovered=scaler.recovered,
        error=error,
    )


def wrong_scaler(scaler: ToldScaler) -> str:
    """What a GradScaler did that it must not; empty when all is as it should be."""
    limit = limits.LIMITS["fp16"].gradient
    if not scaler.enabled:
        return "GradScaler disabled itself: scale, step and update do nothing"
    if scaler.gradient_error is None or scaler.gradient_error > limit:
        off = shown(scaler.gradient_error)
        return f"after unscale_ the gradients are off from fp32's by {off}; the limit is {limit:g}"
    if not scaler.moved:
        return "a step without an overflow left the parameters as they were"
    if scaler.scale_after_normal != scaler.scale_before:
        return f"a step without an overflow changed the scale from {scaler.scale_before} to {scaler.scale_after_normal}"
    if scaler.skipped is None:
        return "the step with an overflow did not end"
    if not scaler.skipped:
        return "a gradient was inf, and the step was not skipped: the parameters are damaged"
    if scaler.scale_after is None or scaler.scale_before is None or scaler.scale_after != scaler.scale_before / 2:
        return f"after an overflow the scale is {scaler.scale_after} and not half of {scaler.scale_before}"
    if not scaler.recovered:
        return "the step after the skipped one did not change the parameters"
    if scaler.scale_reloaded != scaler.scale_after:
        return f"state_dict and load_state_dict made {scaler.scale_reloaded} of a scale of {scaler.scale_after}"
    return ""


def speeds(dtype: Dtype, parts: Said, hardware: Hardware) -> tuple[Speed, ...]:
    by_what: dict[str, Speed] = {}
    expected = expected_factor(dtype, hardware.name, hardware.capability) if hardware.kind == "cuda" else None
    for message in parts:
        speed = converted(message.get("speed"), ToldSpeed)
        if speed is None or speed.what not in ("matmul", "convolution", "convolution channels_last"):
            continue
        by_what[speed.what] = Speed(
            what=cast(Any, speed.what),
            size=speed.size,
            seconds=speed.seconds,
            fp32_seconds=speed.fp32_seconds,
            teraflops=speed.teraflops,
            # What is published are rates of matrix products.
            expected_factor=expected if speed.what == "matmul" else None,
        )
    return tuple(by_what.values())


def with_compiled(precisions: Sequence[Precision], said: Said, probe: Probe) -> list[Precision]:
    """The dtype that was compiled gets what torch.compile gave."""
    dtype = next((message["dtype"] for message in said if message.get("dtype")), None)
    verdict = compiled_verdict(dtype, said, probe)
    tried = dtype or next((each.dtype for each in precisions if each.dtype in ("fp16", "bf16")), None)
    return [msgspec.structs.replace(each, compiled=verdict) if each.dtype == tried else each for each in precisions]


def compiled_verdict(dtype: object, said: Said, probe: Probe) -> str:
    for message in said:
        compiled = converted(message.get("compiled"), ToldCompiled)
        if compiled is not None and compiled.absent:
            return f"not applicable: {compiled.absent}"
        if compiled is not None:
            limit = limits.COMPILED.get(str(dtype), 0.0)
            if compiled.out_dtype != LOW.get(str(dtype)):
                return f"failed: the output is {compiled.out_dtype} and not {LOW.get(str(dtype))}"
            if compiled.error is None or compiled.error > limit:
                return f"failed: off by {shown(compiled.error)} from the same net not compiled; the limit is {limit:g}"
            return "passed"
        if "failed" in message:
            return f"failed: {message['failed']}"
    if probe.outcome == "answered":
        return "failed: the worker did not say what it found"
    return f"{'timeout' if probe.outcome == 'hung' else 'failed'}: {describe(probe)}"
