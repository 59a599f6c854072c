"""What the error numbers of nvmlInit mean for the machine, and what to do. Source: nvmlReturn_t of nvml.h (NVML 13)."""

from typing import NamedTuple

SUCCESS = 0
NO_PERMISSION = 4
DRIVER_NOT_LOADED = 9
LIBRARY_NOT_FOUND = 12
VERSION_MISMATCH = 18
UNKNOWN = 999


class NvmlError(NamedTuple):
    """A number's name in nvml.h (without NVML_ERROR_), its cause, and a sentence that says what to do."""

    code: int
    name: str
    cause: str
    fix: str


_RESET = "End what uses the GPUs and reset them, or reboot."
_KERNEL_LOG = "The kernel log says what the driver met; reboot, and reinstall the driver when it comes back."

ERRORS = {
    error.code: error
    for error in (
        NvmlError(
            NO_PERMISSION, "NO_PERMISSION", "this user may not open the device files", "Give access to /dev/nvidia*."
        ),
        NvmlError(8, "INSUFFICIENT_POWER", "a GPU's external power cables are not connected", "Connect them."),
        NvmlError(DRIVER_NOT_LOADED, "DRIVER_NOT_LOADED", "the kernel module is not loaded", "Load it."),
        NvmlError(10, "TIMEOUT", "the driver gave up waiting for a GPU", "Reboot the machine."),
        NvmlError(
            11, "IRQ_ISSUE", "a GPU's interrupts do not arrive", "Update the BIOS, or move the GPU to another slot."
        ),
        NvmlError(LIBRARY_NOT_FOUND, "LIBRARY_NOT_FOUND", "libnvidia-ml.so.1 is not there", "Install the driver."),
        NvmlError(
            13,
            "FUNCTION_NOT_FOUND",
            "libnvidia-ml.so.1 lacks a function that every driver of the last years has",
            "Install a newer driver, and remove stray copies of libnvidia-ml.so.1.",
        ),
        NvmlError(15, "GPU_IS_LOST", "a GPU has fallen off the bus", "Power-cycle the machine."),
        NvmlError(16, "RESET_REQUIRED", "a GPU must be reset before it can be used", _RESET),
        NvmlError(17, "OPERATING_SYSTEM", "the operating system or a cgroup blocked the device", _KERNEL_LOG),
        NvmlError(
            VERSION_MISMATCH,
            "LIB_RM_VERSION_MISMATCH",
            "library and kernel module are of different driver versions",
            "Reboot the machine.",
        ),
        NvmlError(20, "MEMORY", "there was not enough host memory", "Free host memory."),
        NvmlError(UNKNOWN, "UNKNOWN", "the driver does not say why", _KERNEL_LOG),
    )
}


def explain(code: int) -> NvmlError:
    """What is known of an nvmlReturn_t; numbers that are not in the table get the general advice."""
    return ERRORS.get(code) or NvmlError(code, f"error {code}", "the driver does not say why", _KERNEL_LOG)
