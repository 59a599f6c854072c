"""What a rank tells the others about itself: its machine, device and versions."""

import ctypes
import json
import os
import platform
import socket
from typing import Any, Dict

from torch_facts import nccl_numbers

LONGEST = 3000  # bytes of JSON: with its other fields the message still fits one line
SETTINGS = ("NCCL_", "TORCH_NCCL_", "GLOO_", "TP_", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES")
OURS = ("NCCL_DEBUG_FILE", "NCCL_HOSTID")  # set by the rank program, different on every rank


def describe(
    torch: Any, launch: Dict[str, Any], device: Any, local_rank: int, free_bytes: int, symmetric: bool
) -> Dict[str, Any]:
    """The fields of a `Member`, rank and world size excepted. Settings are told in symmetric mode only."""
    member: Dict[str, Any] = {
        "host": socket.gethostname()[:255],
        "local_rank": local_rank,
        "device": "cpu",
        "free_bytes": free_bytes,
        "torch": str(torch.__version__),
        "cuda": str(torch.version.cuda or getattr(torch.version, "hip", None) or ""),
    }
    if device.type == "cuda":
        member["device"] = str(torch.cuda.get_device_name(device))
        member["bus_id"] = bus_id(torch, device)
    if launch["backend"] == "nccl":
        member["nccl"] = nccl_version(torch)
    if symmetric:
        member["python"] = platform.python_version()
        member["settings"] = {}
        for name in sorted(os.environ):
            if name.startswith(SETTINGS) and name not in OURS:
                settings = dict(member["settings"], **{name: os.environ[name][:200]})
                if len(json.dumps(dict(member, settings=settings))) <= LONGEST:
                    member["settings"] = settings
    return member


def nccl_version(torch: Any) -> str:
    """ "2.28.9"; empty when torch cannot say."""
    try:
        version = torch.cuda.nccl.version()
    except Exception:  # torch builds without it raise several kinds
        return ""
    suffix = [part for part in version if isinstance(part, str)] if isinstance(version, tuple) else []
    return ".".join([str(part) for part in nccl_numbers(version)] + suffix)


def bus_id(torch: Any, device: Any) -> str:
    """ "0000:1b:00.0", from the driver (torch's own properties have it since 2.7 only); empty when it does not say."""
    properties = torch.cuda.get_device_properties(device)
    if hasattr(properties, "pci_bus_id") and hasattr(properties, "pci_device_id"):
        domain = getattr(properties, "pci_domain_id", 0)
        return f"{domain:04x}:{properties.pci_bus_id:02x}:{properties.pci_device_id:02x}.0"
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        handle, text = ctypes.c_int(), ctypes.create_string_buffer(32)
        has_device = driver.cuDeviceGet(ctypes.byref(handle), device.index) == 0
        if has_device and driver.cuDeviceGetPCIBusId(text, len(text), handle) == 0:
            return text.value.decode("ascii", "replace").lower()
    except (OSError, AttributeError):
        pass  # ROCm, or no driver under this name
    return ""
