"""Whether NVIDIA's driver has left a trace, so that asking NVML is worth a child process."""

import ctypes
import sys
from pathlib import Path

DRIVER_TRACES = ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg")


def may_have_nvml() -> bool:
    """Whether asking NVML in a child of its own is worth it: the driver left a trace, or its library can be loaded."""
    if not sys.platform.startswith("linux") or any(Path(trace).exists() for trace in DRIVER_TRACES):
        return True
    try:
        ctypes.CDLL("libnvidia-ml.so.1")  # loading it starts nothing; without a driver there is nothing to hang on
    except OSError as error:
        return "cannot open shared object file" not in str(error)
    return True
