"""Does a device allocate, compute and copy? Arguments: the device ("cuda:0", "cpu") and its PCI bus id, or "".

The product of two seeded random matrices is held against the CPU's float64 result; a buffer goes to the device
and back and must come home unchanged; pinned copies are timed, and the PCIe link is read while they run.
"""

import ctypes
import errno
import math
import os
import socket
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from amp_switches import exact_products

Say = Callable[[Dict[str, Any]], None]

MIB = 1024**2
# 1.3 ms at the 50 GB/s of PCIe 5 x16, so that the microseconds in which a copy starts do not count (CUDA's
# bandwidthTest copies 32 MiB); small enough for eight workers in a container with little memory.
COPY_BYTES = 64 * MIB
COPIES = 16
MATRIX = 1024
ROUNDS = 4
# float32 sums of 1024 products are off by some 1e-6 (measured on CPU: 3e-7), TF32 by 3e-4; between them is wrong.
LARGEST_RELATIVE_ERROR = 1e-5
PCI_DEVICES = "/sys/bus/pci/devices"
TURN_SECONDS = 10.0  # how long to wait until the other GPUs have done their copies


def main(say: Say, arguments: List[str]) -> None:
    """Answers a SmokeResult's fields part by part; `raised` with the exception's text when a step fails."""
    # Either would make a float32 product a TF32 one, and the comparison with the CPU meaningless.
    os.environ["NVIDIA_TF32_OVERRIDE"] = "0"
    os.environ.pop("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", None)
    started = time.perf_counter()
    name, bus_id = arguments[0], arguments[1] if len(arguments) > 1 else ""
    step = "import torch"
    try:
        say({"doing": step})
        import torch

        device = torch.device(name)
        say({"doing": "the first allocation"})
        torch.zeros(1, device=device)
        if device.type == "cuda":
            properties = torch.cuda.get_device_properties(device)
            uuid = str(getattr(properties, "uuid", ""))
            say({"result": {"gpu_uuid": uuid if uuid.replace("-", "").isalnum() else ""}})
        say({"doing": "a matrix product"})
        error = relative_error(torch, device)
        result = {"relative_error": error if math.isfinite(error) else None}  # type: Dict[str, Any]  # JSON has no NaN
        if not error <= LARGEST_RELATIVE_ERROR:
            result.update(outcome="wrong-result", error=too_far_off(error))
        say({"result": result})
        if device.type != "cpu":
            say({"doing": "copies between host and device"})
            say({"result": copies(torch, device, bus_id)})
    except Exception as error:
        text = " ".join(str(error).split())
        say({"raised": f"{type(error).__name__}: {text}"[:600]})
        return
    say({"result": {"seconds": time.perf_counter() - started}, "complete": True})


def too_far_off(error: float) -> str:
    return f"a {MATRIX}x{MATRIX} float32 product is off by {error:.1e}; rounding explains {LARGEST_RELATIVE_ERROR:.0e}"


def relative_error(torch: Any, device: Any) -> float:
    """The largest relative error (Frobenius norm) of a few float32 products against the CPU's in float64."""
    exact_products(torch)
    generator = torch.Generator().manual_seed(20)
    left, right = (torch.randn(MATRIX, MATRIX, generator=generator) for _ in range(2))
    expected = left.double() @ right.double()
    on_device = left.to(device), right.to(device)
    errors = []
    for _ in range(ROUNDS):
        product = (on_device[0] @ on_device[1]).cpu().double()
        errors.append(float((product - expected).norm() / expected.norm()))
    return next((error for error in errors if math.isnan(error)), max(errors))


def copies(torch: Any, device: Any, bus_id: str) -> Dict[str, Any]:
    """A round trip that must not change a bit, the speed of pinned copies each way, and the link under that load."""
    module = getattr(torch, device.type)
    free, _ = module.mem_get_info(device)
    count = max(1, min(COPY_BYTES, free // 4) // 4)
    host = torch.arange(count, dtype=torch.int32).pin_memory()
    back = torch.zeros(count, dtype=torch.int32).pin_memory()
    there = torch.empty(count, dtype=torch.int32, device=device)
    there.copy_(host)
    back.copy_(there)
    module.synchronize(device)
    result = {}  # type: Dict[str, Any]
    if not torch.equal(host, back):
        wrong = int((host != back).sum())
        result.update(outcome="wrong-result", error=f"{wrong} of {count} integers came back changed from the device")
    alone = my_turn()
    link = None  # type: Optional[Tuple[int, int]]
    read_link = link_reader(bus_id)
    for key, target, source in (
        ("host_to_device_bytes_per_second", there, host),
        ("device_to_host_bytes_per_second", back, there),
    ):
        module.synchronize(device)
        started = time.perf_counter()
        for _ in range(COPIES):
            target.copy_(source, non_blocking=True)
        link = read_link() or link  # while the copies are under way
        module.synchronize(device)
        elapsed = time.perf_counter() - started
        # With less than a quarter of the buffer, or with other GPUs copying, the number would not be the link's.
        if alone and count * 4 * 4 >= COPY_BYTES:
            result[key] = count * 4 * COPIES / elapsed
    if link:
        result["pcie_generation_loaded"], result["pcie_width_loaded"] = link
    return result


TURN = []  # type: List[socket.socket]


def my_turn() -> bool:
    """Wait until no other worker of this doctor copies; held until the process ends.

    GPUs share the way to the host's memory, and copies at the same time would slow each other down. The lock is a
    name in Linux's abstract socket namespace: no file, and gone with its owner, however that ends.
    """
    deadline = time.monotonic() + TURN_SECONDS
    name = f"\0gpudoctor-copies-{os.getppid()}"
    while hasattr(socket, "AF_UNIX"):
        lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            lock.bind(name)
            TURN.append(lock)
            return True
        except OSError as error:
            lock.close()
            if error.errno != errno.EADDRINUSE:
                return True  # no such namespace here; machines of that kind have one or two GPUs
        if time.monotonic() > deadline:
            break
        time.sleep(0.005)
    return False


def link_reader(bus_id: str) -> Callable[[], Optional[Tuple[int, int]]]:
    """A function that reads (PCIe generation, width) now: from NVML when it loads, else from sysfs."""
    if not bus_id:
        return lambda: None
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        handle = ctypes.c_void_p()
        has_handle = nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByPciBusId_v2(
            bus_id.encode("ascii"), ctypes.byref(handle)
        )
        if has_handle == 0 and handle:
            return lambda: link_from_nvml(nvml, handle)
    except (OSError, AttributeError, UnicodeError):
        pass  # no NVML here: sysfs knows too
    return lambda: link_from_sysfs(bus_id)


def link_from_nvml(nvml: Any, handle: Any) -> Optional[Tuple[int, int]]:
    """nvmlDeviceGetCurrPcieLinkGeneration and ...Width; None when either has no answer."""
    generation, width = ctypes.c_uint(), ctypes.c_uint()
    if nvml.nvmlDeviceGetCurrPcieLinkGeneration(handle, ctypes.byref(generation)):
        return None
    if nvml.nvmlDeviceGetCurrPcieLinkWidth(handle, ctypes.byref(width)):
        return None
    return generation.value, width.value


def link_from_sysfs(bus_id: str) -> Optional[Tuple[int, int]]:
    """current_link_speed ("32.0 GT/s PCIe") and current_link_width; None when the kernel does not know."""
    domain, _, rest = bus_id.lower().partition(":")
    folder = f"{PCI_DEVICES}/{domain[-4:]}:{rest}/"
    try:
        with open(folder + "current_link_speed", encoding="ascii") as file:
            speed = float(file.read().split()[0])
        with open(folder + "current_link_width", encoding="ascii") as file:
            width = int(file.read())
    except (OSError, ValueError, IndexError):
        return None
    generation = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}.get(speed)
    return (generation, width) if generation and width else None
