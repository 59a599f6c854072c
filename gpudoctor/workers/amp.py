"""What mixed precision really does on one device: `amp DEVICE JSON`, one device and one process.

The JSON: {"dtypes": ["fp16", "bf16", "tf32", "fp8"], "seconds": S, "speed": true, "compile": false}. No measurement
of speed begins later than S seconds after the start; everything before it is short. With "compile", only
torch.compile with autocast is tried, for which the doctor starts a process of its own: it can take long.

Says what it does before it does it, and each number as it has it, so that a crash or a deadline costs the rest only.
Whether a number is good is for the doctor to judge (gpudoctor/amp/assemble.py).
"""

import json
import os
import platform
import time
import warnings
from functools import partial
from typing import Any, Callable, Dict, List, Optional, Tuple  # noqa: F401 - in comments

import amp_nets
import amp_scaler
import amp_speed
import amp_switches

Say = Callable[[Dict[str, Any]], None]

NAMES = {"fp16": "float16", "bf16": "bfloat16"}
CPU_FLAGS = (
    "avx2", "avx512f", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "amx_fp16",  # x86
    "asimd", "asimdhp", "fphp", "bf16", "sve", "svebf16",  # Arm
)  # fmt: skip
SCALED_MATMUL = 64  # rows: torch._scaled_mm wants multiples of 16
LARGEST_MODULUS = 256.0  # of a sum of 256 products of 20 x 20: 102400, and the largest fp16 is 65504
FIRST_FP8, FIRST_TF32, FIRST_BF16 = (
    (8, 9),
    (8, 0),
    (8, 0),
)  # compute capabilities; torch._scaled_mm refuses less than 8.9


class Examination:
    """One device, and what is said of it."""

    def __init__(self, say: Say, torch: Any, device: Any, wish: Dict[str, Any], started: float) -> None:
        self.say = say
        self.torch = torch
        self.device = device
        self.wish = wish
        self.started = started
        self.capability = None  # type: Optional[List[int]]
        self.is_cuda = False  # NVIDIA's, not ROCm's

    def tell(self, dtype: str, **parts: Any) -> None:
        self.say(dict(parts, dtype=dtype))

    def attempt(self, dtype: str, step: str, work: Callable[[], None], net: str = "", optional: bool = False) -> bool:
        """Announce and do one step; what it raises is said and costs this step alone. False when the device is lost.

        `optional` for what decides nothing: a measurement of speed for which there was no memory.
        """
        self.say({"doing": f"{dtype}: {step}", "dtype": dtype})
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                work()
        except amp_nets.AutocastDisabled as error:
            self.tell(dtype, disabled=str(error) or warned(caught))
        except Exception as error:
            self.tell(dtype, failed=describe(error), step=step, net=net, optional=optional)
            return self.still_answers()
        return True

    def still_answers(self) -> bool:
        """Whether the device computes after an exception: an illegal address ends a CUDA context for good."""
        if self.device.type == "cpu":
            return True
        try:
            return bool((self.torch.ones(2, device=self.device) + 1).sum().item() == 4)
        except Exception as error:
            self.say({"raised": f"the device stopped answering: {describe(error)}"})
            return False

    def has_time(self) -> bool:
        return time.monotonic() - self.started < float(self.wish.get("seconds", 10.0))


def main(say: Say, arguments: List[str]) -> None:
    """Says {"device": facts}, then parts that carry their "dtype"; `raised` when the device cannot be used."""
    started = time.monotonic()
    name, wish = arguments[0], json.loads(arguments[1])
    # It would decide over TF32 whatever is set below; what it was is told, and judged, by the doctor.
    override = os.environ.pop("NVIDIA_TF32_OVERRIDE", None)
    say({"doing": "import torch"})
    try:
        import torch

        if amp_switches.too_old(torch):
            say({"doing": "torch.autocast", "unread": amp_switches.too_old(torch)})
            return
        switches = amp_switches.as_set(torch)
        if override is not None:
            switches["NVIDIA_TF32_OVERRIDE"] = override
        say({"device": {"torch": str(torch.__version__), "switches": switches}})
        say({"doing": "the first allocation"})
        device = torch.device(name)
        torch.zeros(1, device=device)
        if device.type == "cpu":
            # One thread: what else the machine does must not decide over a factor, and small nets gain nothing by more.
            torch.set_num_threads(1)
        examination = Examination(say, torch, device, wish, started)
        say({"doing": "reading what the device is"})
        say({"device": describe_device(examination)})
        amp_switches.set_tf32(torch, False)
    except BaseException as error:
        say({"raised": describe(error), "no_torch": getattr(error, "name", None) == "torch"})
        return
    if wish.get("compile"):
        compiled(examination)
    elif not examine(examination):
        return
    say({"complete": True})


def describe(error: BaseException) -> str:
    """ "RuntimeError: no kernel image is available for execution on the device", on one line of bearable length."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:600] if text else type(error).__name__


def warned(caught: Any) -> str:
    """What torch said of its autocast in warnings."""
    texts = [" ".join(str(warning.message).split()) for warning in caught]
    return "; ".join(text for text in texts if "autocast" in text.lower() or "GradScaler" in text)[:600]


def describe_device(examination: Examination) -> Dict[str, Any]:
    torch, device = examination.torch, examination.device
    facts = {}  # type: Dict[str, Any]
    if device.type == "cpu":
        facts.update(cpu())
    else:
        properties = getattr(torch, device.type).get_device_properties(device)
        facts["name"] = str(properties.name)
        if device.type == "cuda":
            examination.is_cuda = not getattr(torch.version, "hip", None)
            if examination.is_cuda:
                facts["capability"] = examination.capability = [int(properties.major), int(properties.minor)]
            else:
                facts["amd_architecture"] = str(getattr(properties, "gcnArchName", ""))
            flags = getattr(torch._C, "_cuda_getArchFlags", None)
            facts["arch_list"] = str((flags() if flags else None) or "").split()
    facts["bf16_native"] = native_bf16(torch, device)
    facts["scaled_mm"] = hasattr(torch, "_scaled_mm") and hasattr(torch, "float8_e4m3fn")
    return facts


def native_bf16(torch: Any, device: Any) -> Optional[bool]:
    """torch's own word on bf16 without emulation; None where this version cannot tell the two apart."""
    asked = getattr(getattr(torch, device.type, None), "is_bf16_supported", None)
    if asked is None or device.type != "cuda":
        return None
    try:
        return bool(asked(including_emulation=False))
    except TypeError:  # before 2.4, which did not count emulation, or counted it alike
        return None


def cpu() -> Dict[str, Any]:
    """The processor's name and the instructions that decide, from /proc/cpuinfo (Linux)."""
    name, flags = "", []  # type: str, List[str]
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                key, _, value = line.partition(":")
                key = key.strip().lower()
                if key in ("model name", "cpu model") and not name:
                    name = value.strip()
                elif key in ("flags", "features"):
                    flags = value.split()
                    break  # of the first processor; on x86 its name stands before
    except OSError:
        return {"name": platform.processor() or platform.machine(), "cpu_flags": None}
    return {
        "name": name or platform.machine(),
        "machine": platform.machine(),
        "cpu_flags": [flag for flag in CPU_FLAGS if flag in flags] if flags else None,
    }


def examine(examination: Examination) -> bool:
    """All that is right or wrong first, then what takes time. False when the device was lost on the way."""
    dtypes = [str(dtype) for dtype in examination.wish["dtypes"]]
    examination.say({"doing": "fp32, to compare with"})
    try:
        reference = amp_nets.Reference(examination.torch, examination.device)
        examination.say({"device": {"reference_error": reference.error}})
    except Exception as error:
        examination.say({"raised": describe(error)})
        return False
    for dtype in dtypes:
        if not examine_dtype(examination, reference, dtype):
            return False
    if examination.wish.get("speed", True):
        return amp_speed.measure(examination, dtypes)
    return True


def examine_dtype(examination: Examination, reference: amp_nets.Reference, dtype: str) -> bool:
    steps = []  # type: List[Tuple[str, str, Callable[[], None]]]
    if dtype == "fp8":
        if not fp8_is_possible(examination):
            return True
        steps.append(("torch._scaled_mm", "matmul", lambda: scaled_mm(examination)))
    elif dtype == "tf32":
        if not (examination.is_cuda and tuple(examination.capability or ()) >= FIRST_TF32):
            return True
        steps.append(("a product with TF32 on", "matmul", lambda: tf32_product(examination)))
        for net in amp_nets.NETS:
            steps.append((f"the {net} with TF32 on", net, partial(tf32_net, examination, reference, net)))
    else:
        low = getattr(examination.torch, NAMES[dtype])
        for net in amp_nets.NETS:
            steps.append((f"autocast of the {net}", net, partial(compare, examination, reference, dtype, net, low)))
        steps.append(("a product that overflows", "", lambda: overflow(examination, dtype, low)))
        if dtype == "fp16":
            steps.append(("GradScaler", "", lambda: amp_scaler.exercise(examination, reference, dtype, low)))
    for step, net, work in steps:
        if not examination.attempt(dtype, step, work, net):
            return False
    examination.tell(dtype, finished=True)  # so that the doctor can tell a dtype cut short
    return True


def compare(examination: Examination, reference: amp_nets.Reference, dtype: str, net: str, low: Any) -> None:
    examination.tell(dtype, compared=reference.compare(net, low))


def overflow(examination: Examination, dtype: str, low: Any) -> None:
    torch, side = examination.torch, int(LARGEST_MODULUS)
    twenties = torch.full((side, side), 20.0, device=examination.device, dtype=low)
    highest = float((twenties @ twenties).float().max().item())
    examination.tell(dtype, overflow=highest == float("inf"))


def fp8_is_possible(examination: Examination) -> bool:
    torch = examination.torch
    if not (hasattr(torch, "_scaled_mm") and hasattr(torch, "float8_e4m3fn")):
        return False
    if examination.is_cuda:
        return tuple(examination.capability or ()) >= FIRST_FP8
    # ROCm's fp8 is of another type on some GPUs (float8_e4m3fnuz), and is not tried.
    return bool(examination.device.type == "cpu")


def scaled_mm(examination: Examination) -> None:
    """A product of fp8 matrices with scales, against the product of the same values in float64 on the CPU.

    So what is held against it is the arithmetic; that fp8 rounds its inputs coarsely is no fault of the device.
    """
    torch, device = examination.torch, examination.device
    generator = torch.Generator().manual_seed(20)
    left, right = (torch.randn(SCALED_MATMUL, SCALED_MATMUL, generator=generator) for _ in range(2))
    largest = torch.finfo(torch.float8_e4m3fn).max
    scales = [matrix.abs().max() / largest for matrix in (left, right)]
    low = [(matrix / scale).to(torch.float8_e4m3fn) for matrix, scale in zip((left, right), scales)]
    rounded = [matrix.double() * scale.double() for matrix, scale in zip(low, scales)]
    exact, kept = left.double() @ right.double(), rounded[0] @ rounded[1]
    # The second operand has to be column-major.
    second = low[1].t().contiguous().to(device).t()
    product = torch._scaled_mm(
        low[0].to(device), second, scale_a=scales[0].to(device), scale_b=scales[1].to(device), out_dtype=torch.bfloat16
    )
    if isinstance(product, tuple):  # torch up to 2.4 returned the largest value too
        product = product[0]
    result = product.cpu().double()
    examination.tell(
        "fp8",
        compared={
            "net": "matmul",
            "output_error": amp_nets.number(amp_nets.relative(result, kept)),
            "rounding_error": amp_nets.number(amp_nets.relative(result, exact)),
            "out_dtype": str(product.dtype).replace("torch.", ""),
            "finite": bool(result.isfinite().all()),
        },
    )


def tf32_product(examination: Examination) -> None:
    """A product with TF32 on against the same with TF32 off: it has to differ, by TF32's rounding."""
    torch, device = examination.torch, examination.device
    generator = torch.Generator().manual_seed(20)
    left, right = (torch.randn(512, 512, generator=generator) for _ in range(2))
    expected = left.double() @ right.double()
    on_device = left.to(device), right.to(device)
    errors = []
    for on in (False, True):
        amp_switches.set_tf32(torch, on)
        try:
            errors.append(amp_nets.relative((on_device[0] @ on_device[1]).cpu().double(), expected))
        finally:
            amp_switches.set_tf32(torch, False)
    examination.tell(
        "tf32",
        compared={
            "net": "matmul",
            "output_error": amp_nets.number(errors[1]),
            "off_error": amp_nets.number(errors[0]),
            "out_dtype": "float32",
            "finite": errors[1] == errors[1],
        },
    )


def tf32_net(examination: Examination, reference: amp_nets.Reference, net: str) -> None:
    amp_switches.set_tf32(examination.torch, True)
    try:
        examination.tell("tf32", compared=reference.compare(net, None))
    finally:
        amp_switches.set_tf32(examination.torch, False)


def compiled(examination: Examination) -> None:
    """torch.compile of the transformer under autocast, against the same net without it: in bf16 where it is native."""
    wanted = [dtype for dtype in ("bf16", "fp16") if dtype in examination.wish["dtypes"]]
    if examination.is_cuda and tuple(examination.capability or ()) < FIRST_BF16 and "fp16" in wanted:
        wanted = ["fp16"]
    if wanted:
        dtype, low = wanted[0], getattr(examination.torch, NAMES[wanted[0]])
        examination.attempt(dtype, "torch.compile with autocast", lambda: amp_speed.compiled(examination, dtype, low))
