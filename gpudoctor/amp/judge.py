"""What the measurements of all devices mean: problems with what to do, and which precision to use. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import structs

from gpudoctor import __version__
from gpudoctor.amp.report import AmpAdvice, AmpDevice, AmpProblem, AmpReport, Precision, Speed
from gpudoctor.check import Fix
from gpudoctor.command import command
from gpudoctor.knowledge.precision import limits
from gpudoctor.knowledge.precision.factors import SUSPICIOUS, source_of_factor
from gpudoctor.knowledge.precision.spelling import Chosen, spelled
from gpudoctor.knowledge.precision.support import Dtype, has_tensor_cores, least_for_fp8
from gpudoctor.knowledge.wording import figure
from gpudoctor.snapshot import Reading, read

LEAST_GAIN = 1.1
"""bf16 by conversion that is not even this much faster than fp32 is not worth its rounding (our rule of thumb)."""
TORCH_TYPES = {"fp16": "torch.float16", "bf16": "torch.bfloat16"}


def judge(devices: Sequence[AmpDevice], versions: Mapping[str, str]) -> AmpReport:
    """The report. `versions` maps the training interpreter's distributions to their versions."""
    amp_problems = [problem for device in devices for problem in problems(device)]
    order = {"error": 0, "warning": 1, "info": 2}
    return AmpReport(
        gpudoctor=__version__,
        devices=tuple(devices),
        advice=advice(devices, versions),
        problems=tuple(sorted(amp_problems, key=lambda problem: order[problem.severity])),
        seconds=sum(device.seconds for device in devices),
    )


IDS = {"wrong-result": "amp-wrong-result", "timeout": "amp-timeout"}
"""Of a precision that does not work, by its outcome; any other is "amp-failed"."""


def judged_again(saved: AmpReport) -> AmpReport:
    """An answer from a file, its problems and advice made anew of what was measured."""
    fresh = judge(saved.devices, saved.versions)
    return structs.replace(
        fresh,
        gpudoctor=saved.gpudoctor,
        versions=saved.versions,
        why_devices=saved.why_devices,
        seconds=saved.seconds,
    )


# ---------------------------------------------------------------- problems


def problems(device: AmpDevice) -> Iterator[AmpProblem]:
    """All of one device."""
    if device.error:
        yield not_tested(device)
        return
    builds = [
        precision for precision in device.precisions if precision.support == "build" and "has code for" in precision.why
    ]
    if builds:
        yield build_lacks(device, builds[0])
        return  # nothing runs, and every dtype would say so again
    if device.reference_error is not None and device.reference_error > limits.FP32:
        yield fp32_wrong(device)
    for precision in device.precisions:
        if precision.outcome in ("wrong-result", "failed", "timeout"):
            yield does_not_work(device, precision)
        yield from of_speed(device, precision)
        if precision.compiled.startswith(("failed", "timeout")):
            yield compiled_fails(device, precision)
    yield from of_tf32(device)


def problem(
    id: str,
    device: AmpDevice,
    severity: Literal["error", "warning", "info"],
    summary: str,
    meaning: str,
    fix: Fix,
    *facts: Reading[Any],
) -> AmpProblem:
    return AmpProblem(
        id=id, device=device.device, severity=severity, summary=summary, meaning=meaning, fix=fix, evidence=facts
    )


def named(device: AmpDevice) -> str:
    """ "cuda:0 (NVIDIA H100 PCIe)"."""
    return f"{device.device} ({device.name})" if device.name else device.device


def source(device: AmpDevice, precision: Precision | None = None) -> str:
    return f"gpudoctor amp {device.device}" + (f" {precision.dtype}" if precision else "")


def not_tested(device: AmpDevice) -> AmpProblem:
    return problem(
        "amp-device-not-tested",
        device,
        "error",
        f"{named(device)} could not be tested: {device.error}",
        "Whether training in any precision works there is not known.",
        Fix("Find out first why the device does not compute.", (command("gpudoctor check --deep"),)),
        read(source(device), device.error),
    )


def build_lacks(device: AmpDevice, precision: Precision) -> AmpProblem:
    return problem(
        "torch-without-gpu-kernels",
        device,
        "error",
        f"{named(device)}: {precision.why}",
        "Every kernel fails there with 'no kernel image is available for execution on the device', in any precision.",
        Fix(
            "Install a torch build that has code for this GPU: gpudoctor check names one.",
            (command("gpudoctor check"),),
        ),
        read(source(device), precision.why),
    )


def fp32_wrong(device: AmpDevice) -> AmpProblem:
    return problem(
        "smoke-wrong-result",
        device,
        "error",
        f"{named(device)}: fp32 with TF32 off is off by {device.reference_error:.1e} from the CPU's float64; rounding "
        f"explains less than {limits.FP32:.0e}",
        "The device computes wrong numbers, or something keeps TF32 on. What is said of the other precisions compares "
        "with these numbers.",
        Fix("Test the device on its own, and look into the kernel log.", (command("gpudoctor check --deep"),)),
        read(source(device), device.reference_error),
    )


def does_not_work(device: AmpDevice, precision: Precision) -> AmpProblem:
    """A dtype that was tried and failed. On hardware that has it, training in it fails too.

    Where it is only emulated it may fail, but neither lie nor keep who tries it, and what comes after, waiting.
    """
    details = what_failed(precision)
    is_meant_to_work = precision.support in ("hardware", "hardware, slow")
    severity: Literal["error", "warning"] = "warning"
    if is_meant_to_work or precision.outcome in ("wrong-result", "timeout"):
        severity = "error"
    if precision.outcome == "wrong-result":
        meaning = (
            f"Training in {precision.dtype} there computes wrong numbers: its loss diverges, or it learns nothing."
        )
    elif precision.outcome == "timeout":
        meaning = f"Training in {precision.dtype} there may hang."
    elif precision.scaler is not None and precision.scaler.outcome == "failed":
        meaning = (
            "Without a GradScaler that works, small gradients of fp16 become zero and one overflow ruins the weights."
        )
    elif "autocast did nothing" in details or "disabled" in details.lower():
        meaning = "Training runs, in fp32: slower, with more memory, and without a word."
    else:
        meaning = f"Training in {precision.dtype} there ends with this error."
    return problem(
        IDS.get(precision.outcome, "amp-failed"),
        device,
        severity,
        f"{named(device)}: {precision.dtype} {verb(precision)}: {details}",
        meaning,
        fix_of(device, precision),
        read(source(device, precision), details),
    )


def verb(precision: Precision) -> str:
    return {"wrong-result": "gives wrong results", "timeout": "did not answer", "failed": "does not work"}[
        precision.outcome
    ]


def what_failed(precision: Precision) -> str:
    """The first of the reasons, the most telling first."""
    for compared in precision.compared:
        if compared.outcome == precision.outcome:
            return f"{compared.net}: {compared.error}"
    if precision.scaler is not None and precision.scaler.outcome == "failed":
        return f"GradScaler: {precision.scaler.error}"
    return precision.error or "no reason was told"


def fix_of(device: AmpDevice, precision: Precision) -> Fix:
    if precision.outcome == "timeout":
        return Fix("Find out where it stands while it hangs.", (command("gpudoctor hang"),))
    if precision.scaler is not None and precision.scaler.outcome == "failed":
        return Fix("Use bf16, which needs no GradScaler, or install torch anew: its GradScaler is part of it.")
    others = [tried.dtype for tried in device.precisions if tried.outcome == "passed" and tried.dtype in TORCH_TYPES]
    use = f"Use {others[-1]} meanwhile, which passed. " if others else "Train in fp32 meanwhile. "
    return Fix(
        f"{use}If fp32 passes gpudoctor check --deep, the fault is in this precision's kernels: try another build of "
        "torch.",
        (command("gpudoctor check --deep"),),
    )


def of_speed(device: AmpDevice, precision: Precision) -> Iterator[AmpProblem]:
    """Precisions that work and gain nothing."""
    product = next((speed for speed in precision.speeds if speed.what == "matmul"), None)
    if precision.outcome != "passed" or product is None or product.factor <= 0:
        return
    measured = read(f"{source(device, precision)}, product {product.size}", round(product.factor, 2))
    if precision.support == "emulated":
        if product.factor < LEAST_GAIN and precision.dtype == "bf16":
            yield emulated(device, precision, product, measured)
        return
    if product.expected_factor is not None and product.factor < SUSPICIOUS * product.expected_factor:
        yield no_gain(device, precision, product, measured)
        return
    last = next((speed for speed in precision.speeds if speed.what == "convolution channels_last"), None)
    has_cores = has_tensor_cores(precision.dtype, device.name, device.capability)
    if has_cores and last is not None and 0 < last.factor < 1 and precision.dtype in TORCH_TYPES:
        yield problem(
            "amp-channels-last-slow",
            device,
            "warning",
            f"{named(device)}: a convolution in {precision.dtype} with channels_last takes {1 / last.factor:.1f} times "
            "as long as in fp32; it should be faster",
            "Convolutional nets train slower in mixed precision than in fp32 there.",
            Fix("Look at the cuDNN that torch loads: an older one than torch was made for misses its fast kernels.",
                (command("gpudoctor check"),)),
            read(f"{source(device, precision)}, convolution {last.size}", round(last.factor, 2)),
        )  # fmt: skip


def emulated(device: AmpDevice, precision: Precision, product: Speed, measured: Reading[Any]) -> AmpProblem:
    return problem(
        "amp-emulated",
        device,
        "warning" if device.device != "cpu" else "info",
        f"{named(device)}: {precision.dtype} is emulated ({precision.why}): {product.factor:.2f} times fp32's speed",
        "torch.cuda.is_bf16_supported() says yes all the same. Training runs, slower than in fp32."
        if device.device != "cpu"
        else "Training under autocast runs there, and gains nothing in time.",
        Fix("Use fp16 with GradScaler." if device.device != "cpu" else "Train in fp32 on this CPU."),
        measured,
    )


def no_gain(device: AmpDevice, precision: Precision, product: Speed, measured: Reading[Any]) -> AmpProblem:
    origin = source_of_factor(device.name, device.capability)
    return problem(
        "amp-no-gain",
        device,
        "warning",
        f"{named(device)}: a {product.size} product in {precision.dtype} is {figure(product.factor)} times as fast as "
        f"in fp32; {product.expected_factor:g} times is what the published rates give ({origin})",
        "Training in this precision gains much less there than the GPU can give.",
        Fix(
            "Look at clocks, power limit and who else uses the GPU.",
            (command("nvidia-smi -q -d CLOCK,POWER,PERFORMANCE"), command("gpudoctor check")),
        ),
        measured,
    )


def compiled_fails(device: AmpDevice, precision: Precision) -> AmpProblem:
    details = precision.compiled.partition(": ")[2]
    return problem(
        "amp-compile-fails",
        device,
        "warning",
        f"{named(device)}: torch.compile with autocast in {precision.dtype}: {details}",
        "Programs that call torch.compile fail there or wait; the same programs without it run.",
        Fix("Leave torch.compile out, or see to what it misses: Triton of torch's own release, a C compiler."),
        read(f"{source(device, precision)}, torch.compile", precision.compiled),
    )


def of_tf32(device: AmpDevice) -> Iterator[AmpProblem]:
    """Switches that decide over fp32's meaning without a line in the training program."""
    override = device.switches.get("NVIDIA_TF32_OVERRIDE")
    has_tf32 = has_tensor_cores("tf32", device.name, device.capability)
    if has_tf32 and override is not None:
        to = "off" if override == "0" else "on"
        yield problem(
            "tf32-override-set",
            device,
            "warning",
            f"NVIDIA_TF32_OVERRIDE={override} forces TF32 {to} for every program of this environment",
            "torch's own switches do nothing: fp32 products are "
            + ("slow" if to == "off" else "rounded to 10 bits of mantissa")
            + " whatever the program sets.",
            Fix("Unset it, and set the precision in the program.", (command("unset NVIDIA_TF32_OVERRIDE"),)),
            read("environment NVIDIA_TF32_OVERRIDE", override),
        )
    for name, value in sorted(device.switches.items()):
        if has_tf32 and value.startswith("raises"):
            yield problem(
                "tf32-switch-unreadable",
                device,
                "info",
                f"{name} cannot be read at the start of Python: it {value}",
                "Programs that read the switch fail: something sets both the old and the new names.",
                Fix("Use torch.backends.cuda.matmul.fp32_precision alone, from torch 2.9 on."),
                read(name, value),
            )
    tf32 = next(
        (precision for precision in device.precisions if precision.dtype == "tf32" and precision.outcome == "passed"),
        None,
    )
    product = next((speed for speed in tf32.speeds if speed.what == "matmul"), None) if tf32 else None
    if has_tf32 and product is not None and product.factor >= 2 and products_are_ieee(device.switches):
        yield problem(
            "tf32-off",
            device,
            "info",
            f"{named(device)}: fp32 products run without TF32, as torch has it by default; with it they are "
            f"{figure(product.factor)} times as fast",
            "Whatever stays in fp32, outside autocast, takes longer than it could. TF32 rounds to 10 bits of mantissa.",
            Fix("Where that rounding is acceptable: torch.set_float32_matmul_precision('high')."),
            read(f"{source(device)} tf32, product {product.size}", round(product.factor, 2)),
        )


def products_are_ieee(switches: Mapping[str, str]) -> bool:
    """Whether torch's switches leave TF32 off for products; False where they could not be read."""
    old = switches.get("torch.backends.cuda.matmul.allow_tf32")
    new = switches.get("torch.backends.cuda.matmul.fp32_precision")
    return old == "False" and new in (None, "none", "ieee") and switches.get("NVIDIA_TF32_OVERRIDE") is None


# ---------------------------------------------------------------- advice


def advice(devices: Sequence[AmpDevice], versions: Mapping[str, str]) -> AmpAdvice | None:
    """One precision for all devices that were tested; None when none was."""
    tested = [device for device in devices if not device.error and device.precisions]
    if not tested:
        return None
    on_cpu = all(device.device == "cpu" for device in tested)
    verdicts: dict[Dtype, list[tuple[AmpDevice, Precision]]] = {
        dtype: [(device, precision) for device in tested for precision in device.precisions if precision.dtype == dtype]
        for dtype in ("fp16", "bf16")
    }
    chosen: Chosen = "fp32"
    if good(verdicts["bf16"], len(tested)):
        chosen = "bf16"
    elif not on_cpu and good(verdicts["fp16"], len(tested)) and scaler_works(verdicts["fp16"]):
        chosen = "fp16"
    device_type = tested[0].device.partition(":")[0]
    return AmpAdvice(
        precision=chosen,
        why=why(chosen, tested, verdicts, on_cpu),
        spelled=spelled(chosen, {**versions, **with_torch(tested)}, device_type),
    )


def with_torch(devices: Sequence[AmpDevice]) -> dict[str, str]:
    """The torch that was really imported goes before what a distribution's metadata says."""
    return {"torch": devices[0].torch} if devices[0].torch else {}


def good(tried: Sequence[tuple[AmpDevice, Precision]], wanted: int) -> bool:
    """Every device has it in hardware, and it passed there."""
    return len(tried) == wanted and all(
        precision.outcome == "passed"
        and (precision.support == "hardware" or (precision.support == "unknown" and device.device != "cpu"))
        for device, precision in tried
    )


def scaler_works(tried: Sequence[tuple[AmpDevice, Precision]]) -> bool:
    return all(precision.scaler is not None and precision.scaler.outcome == "passed" for _, precision in tried)


def why(
    chosen: Chosen,
    tested: Sequence[AmpDevice],
    verdicts: Mapping[Dtype, Sequence[tuple[AmpDevice, Precision]]],
    on_cpu: bool,
) -> str:
    """A sentence or two without a final period: what speaks for it, and why not the others."""
    parts = []
    if chosen == "bf16":
        parts.append("bf16 passed here, and has fp32's range, so that no GradScaler is needed")
        if verdicts["fp16"]:
            slow = on_cpu and any(precision.support != "hardware" for _, precision in verdicts["fp16"])
            parts.append("fp16 gains nothing on this CPU" if slow else "fp16 would need GradScaler")
    elif chosen == "fp16":
        parts.append("fp16 with GradScaler, which skipped a forced overflow as it must")
        parts.append(against("bf16", verdicts["bf16"]))
    else:
        parts.append("fp32, for no lower precision both passed and has hardware here")
        parts += [against("bf16", verdicts["bf16"]), against("fp16", verdicts["fp16"])]
    fp8 = least_for_fp8([device.capability for device in tested if device.capability is not None])
    return "; ".join(part for part in [*parts, fp8] if part)


def against(dtype: Dtype, tried: Sequence[tuple[AmpDevice, Precision]]) -> str:
    """Why not this one."""
    if not tried:
        return f"{dtype} was not tested"
    for device, precision in tried:
        if precision.outcome != "passed":
            why = verb(precision) if precision.outcome != "not applicable" else precision.why
            return f"{dtype}: {why} on {device.device}"
        if precision.support != "hardware":
            return f"{dtype} is {precision.support} on {device.device} ({precision.why})"
        if precision.scaler is not None and precision.scaler.outcome == "failed":
            return f"{dtype}'s GradScaler does not work on {device.device}"
    return ""
