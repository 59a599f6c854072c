"""Speed and memory of lower precision against fp32 with TF32 off, on the same device, after a warm-up.

Medians of single calls: CUDA events where there are any, else the clock. On a CPU only bf16 is timed: fp16 without
instructions for it takes up to 250 times fp32's time (measured with torch 2.13).
"""

import importlib.util
import time
from functools import partial
from typing import Any, Callable, Dict, List, Optional, Tuple

import amp_nets
import amp_switches

NAMES = {"fp16": "float16", "bf16": "bfloat16"}
# 4096: 0.14 teraflop, 9 ms at the 15 TFLOP/s in fp32 of a V100. A GPU of capability 9.0 or more needs 8192 to be full.
SIDE, SIDE_LARGE, SIDE_CPU = 4096, 8192, 512
WARM_UP, CALLS = 3, 11
LONGEST_SECONDS = 1.0  # of all calls of one measurement: on a slow device the number of calls gives way
IMAGES, CHANNELS, IMAGE_SIDE = 32, 256, 56  # a 3x3 convolution of the size ResNet-50 has in its second stage, widened
TOKENS, WIDTH, BLOCKS = 4096, 1024, 2  # of the transformer whose memory is measured


def measure(examination: Any, dtypes: List[str]) -> bool:
    """Say {"speed": ...} and {"memory": ...} of each dtype while there is time. False when the device was lost."""
    device = examination.device
    timed = [dtype for dtype in dtypes if dtype == "bf16" or (dtype != "fp8" and device.type != "cpu")]
    if not examination.is_cuda or (examination.capability or [0]) < [8]:
        timed = [dtype for dtype in timed if dtype != "tf32"]
    base = {}  # type: Dict[str, float]
    steps = [("the speed of a matrix product", matmul)]  # type: List[Tuple[str, Callable[..., None]]]
    if device.type != "cpu":
        steps += [
            ("the speed of a convolution", convolve),
            ("the speed of a convolution, channels_last", convolve_last),
        ]
    for what, work in steps:
        for dtype in timed:
            if not attempt(examination, dtype, what, partial(work, examination, dtype, base)):
                return False
    if "fp8" in dtypes and examination.is_cuda and (examination.capability or [0]) >= [8, 9]:
        what = "the speed of torch._scaled_mm"
        if not attempt(examination, "fp8", what, lambda: matmul_fp8(examination, base)):
            return False
    if device.type == "cuda":
        what = "the memory of a training step"
        for dtype in [dtype for dtype in timed if dtype in NAMES]:
            if not attempt(examination, dtype, what, partial(memory, examination, dtype, base)):
                return False
    return True


def attempt(examination: Any, dtype: str, what: str, work: Callable[[], None]) -> bool:
    """One measurement, or word of it that there was no time. False when the device was lost."""
    if not examination.has_time():
        examination.tell(dtype, not_timed=what)
        return True
    return bool(examination.attempt(dtype, what, work, optional=True))


def side(examination: Any) -> int:
    if examination.device.type == "cpu":
        return SIDE_CPU
    return SIDE_LARGE if (examination.capability or [0]) >= [9] else SIDE


def operands(examination: Any, *shapes: Tuple[int, ...]) -> List[Any]:
    """Random numbers of these shapes in float32: power, and with it the clocks, depend on what is multiplied."""
    torch = examination.torch
    generator = torch.Generator(examination.device).manual_seed(amp_nets.SEED)
    return [torch.randn(*shape, generator=generator, device=examination.device) for shape in shapes]


def matmul(examination: Any, dtype: str, base: Dict[str, float]) -> None:
    rows = side(examination)
    left, right = operands(examination, (rows, rows), (rows, rows))
    if "matmul" not in base:
        base["matmul"] = seconds(examination, lambda: left @ right)
    taken = at_precision(examination, dtype, left, right, lambda one, other: one @ other)
    tell(examination, dtype, "matmul", f"{rows}x{rows}x{rows}", taken, base["matmul"], 2 * rows**3)


def matmul_fp8(examination: Any, base: Dict[str, float]) -> None:
    torch, rows = examination.torch, side(examination)
    left, right = operands(examination, (rows, rows), (rows, rows))
    if "matmul" not in base:
        base["matmul"] = seconds(examination, lambda: left @ right)
    one = torch.ones((), device=examination.device)
    first, second = left.to(torch.float8_e4m3fn), right.t().contiguous().to(torch.float8_e4m3fn).t()
    taken = seconds(
        examination, lambda: torch._scaled_mm(first, second, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    )
    tell(examination, "fp8", "matmul", f"{rows}x{rows}x{rows}", taken, base["matmul"], 2 * rows**3)


def convolve(examination: Any, dtype: str, base: Dict[str, float], last: bool = False) -> None:
    torch = examination.torch
    what = "convolution channels_last" if last else "convolution"
    images, kernel = operands(examination, (IMAGES, CHANNELS, IMAGE_SIDE, IMAGE_SIDE), (CHANNELS, CHANNELS, 3, 3))
    if last:
        images, kernel = (tensor.to(memory_format=torch.channels_last) for tensor in (images, kernel))

    def work(one: Any, other: Any) -> Any:
        return torch.nn.functional.conv2d(one, other, padding=1)

    # Both layouts against fp32 in its own, the default one: that is what changing layout and precision gains.
    if "convolution" not in base:
        base["convolution"] = seconds(examination, lambda: work(images.contiguous(), kernel.contiguous()))
    taken = at_precision(examination, dtype, images, kernel, work)
    operations = 2 * IMAGES * CHANNELS * CHANNELS * 9 * IMAGE_SIDE * IMAGE_SIDE
    size = f"{IMAGES}x{CHANNELS}x{IMAGE_SIDE}x{IMAGE_SIDE}, 3x3"
    tell(examination, dtype, what, size, taken, base["convolution"], operations)


def convolve_last(examination: Any, dtype: str, base: Dict[str, float]) -> None:
    convolve(examination, dtype, base, last=True)


def at_precision(examination: Any, dtype: str, one: Any, other: Any, work: Callable[[Any, Any], Any]) -> float:
    """Seconds of `work` on two float32 tensors converted to `dtype`, or with TF32 switched on."""
    torch = examination.torch
    if dtype != "tf32":
        low = getattr(torch, NAMES[dtype])
        first, second = one.to(low), other.to(low)
        return seconds(examination, lambda: work(first, second))
    amp_switches.set_tf32(torch, True)
    try:
        return seconds(examination, lambda: work(one, other))
    finally:
        amp_switches.set_tf32(torch, False)


def tell(
    examination: Any, dtype: str, what: str, size: str, taken: float, fp32: float, operations: Optional[int]
) -> None:
    teraflops = operations / taken / 1e12 if operations and taken > 0 else None
    examination.tell(
        dtype,
        speed={"what": what, "size": size, "seconds": taken, "fp32_seconds": fp32, "teraflops": teraflops},
    )


def seconds(examination: Any, work: Callable[[], Any]) -> float:
    """The median of a call's time."""
    clock = by_events if examination.device.type == "cuda" else by_clock
    first = by_clock(examination, work)  # includes what is set up once, and so is no measurement
    calls = max(1, min(CALLS, int(LONGEST_SECONDS / max(first, 1e-6))))
    for _ in range(min(WARM_UP, calls)):
        work()
    taken = sorted(clock(examination, work) for _ in range(calls))
    return float(taken[len(taken) // 2])


def by_clock(examination: Any, work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    synchronize(examination)
    return time.perf_counter() - started


def by_events(examination: Any, work: Callable[[], Any]) -> float:
    torch = examination.torch
    with torch.cuda.device(examination.device):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        end.synchronize()
    return float(start.elapsed_time(end)) / 1000


def synchronize(examination: Any) -> None:
    if examination.device.type != "cpu":
        getattr(examination.torch, examination.device.type).synchronize(examination.device)


def memory(examination: Any, dtype: str, base: Dict[str, float]) -> None:
    """The peak of a training step of a transformer, whose activations outweigh its weights."""
    if "memory" not in base:
        base["memory"] = peak(examination, None)
    low = getattr(examination.torch, NAMES[dtype])
    examination.tell(dtype, memory=[int(base["memory"]), peak(examination, low)])


def peak(examination: Any, low: Any) -> int:
    """Bytes."""
    torch, device = examination.torch, examination.device
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    net = amp_nets.transformer(torch, width=WIDTH, heads=16, blocks=BLOCKS, outputs=WIDTH).to(device)
    inputs = torch.zeros(8, TOKENS // 8, WIDTH, device=device)
    if low is None:
        net(inputs).float().square().mean().backward()
    else:
        with amp_nets.autocast(torch, device, low):
            loss = net(inputs).float().square().mean()
        loss.backward()
    synchronize(examination)
    return int(torch.cuda.max_memory_allocated(device) - before)


def compiled(examination: Any, dtype: str, low: Any) -> None:
    """Says {"compiled": {...}}: the error of the compiled net against the same net run as it is."""
    torch, device = examination.torch, examination.device
    backend = str(examination.wish.get("backend", "inductor"))
    if backend == "inductor" and device.type == "cuda" and importlib.util.find_spec("triton") is None:
        examination.tell(dtype, compiled={"absent": "Triton is not installed"})
        return
    if backend == "inductor" and examination.is_cuda and (examination.capability or [0]) < [7]:
        examination.tell(dtype, compiled={"absent": "Triton needs compute capability 7.0"})
        return
    net, inputs, _ = amp_nets.case(torch, "transformer")
    net, inputs = net.to(device), inputs.to(device)
    faster = torch.compile(net, backend=backend)

    def run(model: Any) -> Any:
        with amp_nets.autocast(torch, device, low):
            output = model(inputs)
        output.float().square().mean().backward()
        return output

    computed, expected = run(faster), run(net)
    examination.tell(
        dtype,
        compiled={
            "error": amp_nets.number(amp_nets.relative(computed.detach().double(), expected.detach().double())),
            "out_dtype": amp_nets.short(computed.dtype),
        },
    )
