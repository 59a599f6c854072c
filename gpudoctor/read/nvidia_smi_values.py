"""The words and units of `nvidia-smi -q`, in both of its forms, as values of a snapshot.

A converter raises `ValueError` for what it does not understand; the caller makes a reason of it.
"""

import re
from collections.abc import Mapping
from typing import TypeVar

from gpudoctor.snapshot import Missing, MissingKind

T = TypeVar("T")

MIB = 1024**2

NOT_OFFERED = "nvidia-smi says N/A"
REASONS: dict[str, tuple[str, MissingKind]] = {
    "n/a": (NOT_OFFERED, "absent"),
    "not supported": ("not supported by this GPU", "absent"),
    "requested functionality has been deprecated": ("no longer reported by this driver", "absent"),
    "insufficient permissions": ("no permission (nvidia-smi says Insufficient Permissions)", "denied"),
    "gpu is lost": ("the GPU is lost", "lost"),
    "gpu requires reset": ("the GPU requires a reset", "failed"),
    "unknown error": ("nvidia-smi says Unknown Error", "failed"),
    "err!": ("nvidia-smi says ERR!", "failed"),
    "not found": ("nvidia-smi says Not Found", "failed"),
    "function not found": ("not offered by this driver", "absent"),
    "timeout": ("nvidia-smi says Timeout", "timeout"),
    "no data": ("nvidia-smi says No Data", "failed"),
    "not available in wddm driver model": ("not told in Windows' WDDM driver model", "absent"),
    "": ("the value is empty", "failed"),
}
"""What stands in the place of a value, with or without brackets -> why there is none."""

NVML_TEXTS = {
    "success": 0,
    "uninitialized": 1,
    "invalid argument": 2,
    "not supported": 3,
    "insufficient permissions": 4,
    "not found": 6,
    "insufficient size": 7,
    "insufficient external power": 8,
    "driver not loaded": 9,
    "timeout": 10,
    "interrupt request issue": 11,
    "nvml shared library not found": 12,
    "function not found": 13,
    "corrupted inforom": 14,
    "gpu is lost": 15,
    "gpu requires reset": 16,
    "the operating system has blocked the request": 17,
    "gpu access blocked by the operating system": 17,
    "driver/library version mismatch": 18,
    "in use by another client": 19,
    "insufficient memory": 20,
    "no data": 21,
    "insufficient resources": 23,
    "unknown error": 999,
}
"""What nvmlErrorString says -> nvmlReturn_t (nvml.h)."""

CLOCK_EVENT_REASONS = {
    "idle": 0x1,
    "applications clocks setting": 0x2,
    "sw power cap": 0x4,
    "hw slowdown": 0x8,
    "sync boost": 0x10,
    "sw thermal slowdown": 0x20,
    "hw thermal slowdown": 0x40,
    "hw power brake slowdown": 0x80,
    "display clock setting": 0x100,
}
"""The names of the text form -> nvmlClocksEventReason* (nvml.h)."""

COMPUTE_MODES = {
    "default": "default",
    "exclusive_thread": "exclusive-thread",
    "prohibited": "prohibited",
    "exclusive_process": "exclusive-process",
}
RECOVERY_ACTIONS = {
    "none": 0,
    "reset": 1,
    "gpu reset": 1,
    "reboot": 2,
    "node reboot": 2,
    "drain p2p": 3,
    "drain and reset": 4,
}
"""nvidia-smi's words -> nvmlDeviceGpuRecoveryAction_t (nvml.h)."""
FABRIC_STATES = {"not supported": 0, "not started": 1, "in progress": 2, "completed": 3}
"""nvidia-smi's words -> nvmlGpuFabricState_t (nvml.h)."""


_TRUE_FALSE = {"true": 1, "false": 2}
FABRIC_HEALTH: tuple[tuple[tuple[str, ...], int, Mapping[str, int]], ...] = (
    (("bandwidth",), 0, {"degraded": 1, "full": 2}),
    (("route recovery in progress",), 2, _TRUE_FALSE),
    (("route unhealthy",), 4, _TRUE_FALSE),
    (("access timeout recovery",), 6, _TRUE_FALSE),
)
"""Names, place in the mask and words -> NVML_GPU_FABRIC_HEALTH_MASK_* (nvml.h): fields of two bits, 1 is true."""


def why_missing(value: str) -> Missing | None:
    """The reason, when a value is one of the words that stand for none; else None."""
    reason = REASONS.get(value.strip("[] ").casefold())
    return Missing(*reason) if reason else None


def label(value: str) -> str:
    """A name, UUID or version: printable, and no longer than any of them is."""
    if not value.isprintable() or len(value) > 200:
        raise ValueError
    return value


def number(value: str, unit: str) -> float:
    """A number with its unit, a pattern."""
    # Twelve digits: more than any counter here reaches, and in MiB still below 2**63 bytes.
    match = re.fullmatch(rf"(-?\d{{1,12}}(?:\.\d{{1,6}})?){unit}", value, re.ASCII)
    if match is None:
        raise ValueError
    return float(match[1])


def count(value: str) -> int:
    return int(number(value, ""))


def mebibytes(value: str) -> int:
    """Bytes."""
    return int(number(value, " Mi?B")) * MIB


def percent(value: str) -> int:
    return int(number(value, " %"))


def celsius(value: str) -> int:
    return int(number(value, " C"))


def watts(value: str) -> float:
    return number(value, " W")


def megahertz(value: str) -> int:
    return int(number(value, " MHz"))


def lanes(value: str) -> int:
    """The width of a PCIe link, written "16x"."""
    return int(number(value, "x"))


def performance_state(value: str) -> int:
    """N of "PN"."""
    if not value.startswith("P"):
        raise ValueError
    return count(value[1:])


def enabled(value: str) -> bool:
    return bool(word(value, {"enabled": True, "disabled": False}))


def yes(value: str) -> bool:
    return bool(word(value, {"yes": True, "no": False}))


def active(value: str) -> bool:
    return bool(word(value, {"active": True, "not active": False}))


def compute_mode(value: str) -> str:
    return word(value, COMPUTE_MODES)


def cuda_version(value: str) -> tuple[int, int]:
    major, _, minor = value.partition(".")
    return count(major), count(minor)


def word(value: str, meanings: Mapping[str, T]) -> T:
    """What one of nvidia-smi's words means."""
    if value.casefold() not in meanings:
        raise ValueError
    return meanings[value.casefold()]
