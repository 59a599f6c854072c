"""Asks NVML everything, inside the child process that read/nvidia.py describes.

There is a thread for each GPU, and two for the pairs of GPUs (ctypes releases the GIL): a GPU that blocks in the
driver costs its own facts and no others.
"""

import contextlib
import ctypes
import threading
from collections.abc import Callable
from typing import Any

from gpudoctor.read import nvml_gpu, nvml_links
from gpudoctor.read.nvml_calls import LIBRARY_NOT_FOUND, SUCCESS, CallFailed, Calls, guarded, text
from gpudoctor.read.system import System
from gpudoctor.snapshot import Reading, absent, read

DRIVER, PEERS, TOPOLOGY = "driver", "peers", "topology"
WSL_LIBRARY = "/usr/lib/wsl/lib/libnvidia-ml.so.1"

Say = Callable[..., None]
"""`say(scope, call=..., fields=..., ...)` sends one line to the doctor."""


def examine(api: Any, system: System, say: Say, *, doctor_pid: int, maximum_gpus: int) -> None:
    """Ask NVML (`api`: the module pynvml), and say each answer. Blocks for as long as NVML does."""

    def calls(scope: str, about: str = "") -> Calls:
        return Calls(api, lambda call: say(scope, call=call), about)

    driver = calls(DRIVER)
    init_code = start(driver)
    say(DRIVER, fields={"init_code": init_code})
    if init_code.value_or(-1) != SUCCESS:
        return
    count = guarded("nvmlDeviceGetCount", lambda: _plausible(driver.ask("nvmlDeviceGetCount"), maximum_gpus))
    if count.is_read:
        say(DRIVER, count=count.value)
    else:
        say(DRIVER, fields={"gpus": count})

    def gpu(index: int) -> None:
        say_gpu(calls(f"GPU {index}", f"GPU {index}"), index, system, say, doctor_pid)

    def peers() -> None:
        reading = guarded("nvmlDeviceGetP2PStatus", lambda: nvml_links.peers(calls(PEERS), count.value))
        say(PEERS, fields={"peers": reading}, over=True)

    def topology() -> None:
        source = "nvmlDeviceGetTopologyCommonAncestor"
        levels = guarded(source, lambda: nvml_links.topology(calls(TOPOLOGY), count.value))
        say(TOPOLOGY, fields={"topology": levels}, over=True)

    threads = [threading.Thread(target=gpu, args=(index,), daemon=True) for index in range(count.value_or(0))]
    if count.value_or(0) > 1:
        threads += [threading.Thread(target=pairs, daemon=True) for pairs in (peers, topology)]
    else:
        few = absent("nvmlDeviceGetCount", "fewer than two GPUs")
        no_pairs: Reading[Any] = few if count.is_read else Reading(count.source, missing=count.missing)
        say(PEERS, fields={"peers": no_pairs, "topology": no_pairs})
    for thread in threads:
        thread.start()
    say_driver(driver, say)
    for thread in threads:
        thread.join()


def start(driver: Calls) -> Reading[int]:
    """nvmlInit's nvmlReturn_t."""
    for attempt_on_wsl in (False, True):
        try:
            driver.ask("nvmlInit")
            break
        except CallFailed as error:
            if error.code < 0:
                return Reading(error.source, missing=error.why)
            if error.code != LIBRARY_NOT_FOUND or attempt_on_wsl:
                return read(error.source, error.code)
            # Not every distribution's loader searches the folder in which WSL keeps the driver's libraries;
            # one that is loaded already is found by its name.
            with contextlib.suppress(OSError):
                ctypes.CDLL(WSL_LIBRARY)
    return read("nvmlInit", SUCCESS)


def _plausible(count: int, maximum: int) -> int:
    if count > maximum:
        raise ValueError(f"answered with {count} GPUs")
    return count


def say_gpu(calls: Calls, index: int, system: System, say: Say, doctor_pid: int) -> None:
    """Open a GPU and say all its facts, or why there are none."""
    scope = f"GPU {index}"
    try:
        handle = calls.ask("nvmlDeviceGetHandleByIndex", index)
    except CallFailed as error:
        lost: Reading[Any] = Reading(error.source, missing=error.why)
        say(scope, gpu=index, fields={field: lost for fact in nvml_gpu.FACTS for field in fact.fields}, over=True)
        return
    device = nvml_gpu.NvmlDevice(calls, handle, system, doctor_pid)
    for fact in nvml_gpu.FACTS:
        say(scope, gpu=index, fields=nvml_gpu.readings(device, fact))
    say(scope, over=True)


def say_driver(driver: Calls, say: Say) -> None:
    """The driver's versions."""
    for field, source, function in (
        ("driver_version", "nvmlSystemGetDriverVersion", lambda: text(driver.ask("nvmlSystemGetDriverVersion"))),
        ("nvml_version", "nvmlSystemGetNVMLVersion", lambda: text(driver.ask("nvmlSystemGetNVMLVersion"))),
        ("cuda_version", "nvmlSystemGetCudaDriverVersion", lambda: cuda_version(driver)),
    ):
        say(DRIVER, fields={field: guarded(source, function)})
    say(DRIVER, over=True)


def cuda_version(driver: Calls) -> tuple[int, int]:
    """The newest CUDA that the driver serves. Raises `CallFailed`, or `ValueError` for no version."""
    try:
        number = driver.ask("nvmlSystemGetCudaDriverVersion_v2")
    except CallFailed:  # it asks libcuda, which may be missing; the first version asks the driver
        number = driver.ask("nvmlSystemGetCudaDriverVersion")
    if number < 1000:  # 13000 is CUDA 13.0
        raise ValueError(f"answered with {number}, which is no version of CUDA")
    return number // 1000, number % 1000 // 10
