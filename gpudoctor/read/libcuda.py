"""Asks the CUDA driver itself which devices a program gets, in a child process with the program's environment.

No parser of CUDA_VISIBLE_DEVICES equals the driver, so the driver is asked: libcuda through ctypes, without torch and
without creating a context (nothing is allocated on a GPU). Each call is announced before it is made, so that the one
that hangs or crashes can be named. Imports little: it should ask at once.
"""

import ctypes
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpudoctor.knowledge import pci_address
from gpudoctor.marked import MARK
from gpudoctor.read.lifeline import end_with_the_doctor

WSL_FOLDER = "/usr/lib/wsl/lib"
UUID_BYTES = 16
GPU_DIRECT_RDMA_SUPPORTED, DMA_BUF_SUPPORTED = 116, 124
"""CUdevice_attribute of CUDA 11.3 and 11.7; older drivers refuse the number."""

Say = Callable[[dict[str, Any]], None]


def main(arguments: list[str]) -> None:
    """Entry point of the child; takes no arguments."""
    end_with_the_doctor()
    reply = os.dup(1)
    os.dup2(2, 1)  # what a library prints goes to standard error and cannot garble the reply

    def say(message: dict[str, Any]) -> None:
        line = MARK + json.dumps(message).encode() + b"\n"
        while line:
            line = line[os.write(reply, line) :]

    try:
        say({"answer": CudaDriver(say).answer()})
    except NoLibrary as error:
        say({"absent": str(error)})
    except CudaFailed as error:
        say({"failed": str(error)})
    os._exit(0)  # the driver's exit handlers can hang, and nothing here needs them


class NoLibrary(Exception):
    """This machine has no CUDA driver library."""


class CudaFailed(Exception):
    """The library could not be loaded, or a call after cuInit failed."""


class CudaDriver:
    """libcuda, loaded. Raises `NoLibrary`, or `CudaFailed` when it is there but cannot be loaded."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._library = self._load()

    def _load(self) -> ctypes.CDLL:
        name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
        # Not every distribution's loader searches the folder in which WSL keeps the driver's libraries.
        for place in (name, f"{WSL_FOLDER}/{name}"):
            self._say({"call": f"loading {place}"})
            try:
                return ctypes.CDLL(place)
            except OSError as error:
                if not is_about_absence(str(error), place):
                    raise CudaFailed(f"{place} could not be loaded: {error}") from None
        raise NoLibrary(f"{name} not found")

    def call(self, name: str, *arguments: object) -> int:
        """A function's CUresult. Raises `CudaFailed` when the library lacks it."""
        function = getattr(self._library, name, None)
        if function is None:
            raise CudaFailed(f"libcuda has no {name}")
        self._say({"call": name})
        return int(function(*arguments))

    def demand(self, name: str, *arguments: object) -> None:
        """Call a function that must succeed. Raises `CudaFailed`."""
        error = self.call(name, *arguments)
        if error:
            raise CudaFailed(f"{name} failed with CUDA error {error} {self.error_name(error)}".rstrip())

    def error_name(self, error: int) -> str:
        """ "CUDA_ERROR_NO_DEVICE" for 100; empty for a code that the library does not know."""
        name = ctypes.c_char_p()
        try:
            self.call("cuGetErrorName", ctypes.c_int(error), ctypes.byref(name))
        except CudaFailed:
            return ""
        return (name.value or b"").decode("ascii", "replace")

    def answer(self) -> dict[str, Any]:
        """A `CudaAnswer` for JSON. Raises `CudaFailed` when a call after a successful cuInit fails."""
        error = self.call("cuInit", 0)
        version = ctypes.c_int()
        version_known = self.call("cuDriverGetVersion", ctypes.byref(version)) == 0 and version.value >= 1000
        count = ctypes.c_int()
        if error == 0:
            self.demand("cuDeviceGetCount", ctypes.byref(count))
        return {
            "error": error,
            "error_name": self.error_name(error),
            "driver_version": (version.value // 1000, version.value % 1000 // 10) if version_known else None,
            "library": loaded_library(),
            "devices": [self.device(ordinal) for ordinal in range(count.value)],
        }

    def device(self, ordinal: int) -> dict[str, Any]:
        """A `CudaDevice` for JSON."""
        device = ctypes.c_int()
        self.demand("cuDeviceGet", ctypes.byref(device), ordinal)
        name, bus_id = ctypes.create_string_buffer(256), ctypes.create_string_buffer(32)
        self.demand("cuDeviceGetName", name, len(name), device)
        self.demand("cuDeviceGetPCIBusId", bus_id, len(bus_id), device)
        memory = ctypes.c_size_t()
        memory_known = self.call("cuDeviceTotalMem_v2", ctypes.byref(memory), device) == 0
        return {
            "ordinal": ordinal,
            "uuid": self.uuid(device),
            "pci_bus_id": normalised(bus_id.value.decode("ascii", "replace")),
            "name": name.value.decode("utf-8", "replace"),
            "memory_total_bytes": memory.value if memory_known else None,
            "gpu_direct_rdma": self.attribute(GPU_DIRECT_RDMA_SUPPORTED, device),
            "dma_buf": self.attribute(DMA_BUF_SUPPORTED, device),
        }

    def attribute(self, number: int, device: ctypes.c_int) -> bool | None:
        """Whether the device has an ability; None when the driver does not know the question."""
        value = ctypes.c_int()
        try:
            error = self.call("cuDeviceGetAttribute", ctypes.byref(value), number, device)
        except CudaFailed:
            return None
        return value.value != 0 if error == 0 and value.value in (0, 1) else None

    def uuid(self, device: ctypes.c_int) -> str:
        """The device's UUID, "GPU-..." or "MIG-...".

        CUDA gives 16 bytes without a prefix. cuDeviceGetUuid_v2 (CUDA 11.4) gives a MIG device its own and
        cuDeviceGetUuid that of the whole GPU: where they differ, it is a MIG device. A driver that lacks the second
        can only be asked for the GPU.
        """
        whole = self._uuid_bytes("cuDeviceGetUuid", device)
        if getattr(self._library, "cuDeviceGetUuid_v2", None) is None:
            return "GPU-" + spelled(whole)
        own = self._uuid_bytes("cuDeviceGetUuid_v2", device)
        return ("GPU-" if own == whole else "MIG-") + spelled(own)

    def _uuid_bytes(self, name: str, device: ctypes.c_int) -> bytes:
        array = (ctypes.c_ubyte * UUID_BYTES)()
        self.demand(name, ctypes.byref(array), device)
        return bytes(array)  # all 16, whatever they are: a zero byte ends nothing


def is_about_absence(error: str, library: str) -> bool:
    """Whether a loader's message says that the library itself is not there, and not one that it needs."""
    absence = ("no such file", "could not find", "image not found")  # glibc and musl, Windows, macOS
    return library in error and any(words in error.lower() for words in absence)


def spelled(uuid: bytes) -> str:
    """16 bytes as 8-4-4-4-12 hex digits."""
    digits = uuid.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def normalised(bus_id: str) -> str:
    """NVML's form of a PCI address; what is none is kept as it came."""
    try:
        return pci_address.normalised(bus_id)
    except ValueError:
        return bus_id


def loaded_library() -> str:
    """The path of the libcuda in this process; empty where the kernel has no /proc/self/maps."""
    try:
        for line in Path("/proc/self/maps").read_text(errors="replace").splitlines():
            path = line[line.find("/") :] if "/" in line else ""
            if path.rpartition("/")[2].startswith("libcuda.so"):
                return path
    except OSError:
        pass
    return ""
