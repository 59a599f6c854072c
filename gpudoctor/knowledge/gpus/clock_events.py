"""Why a GPU does not run at its highest clock: the bits of nvmlDeviceGetCurrentClocksEventReasons.

Source: nvml.h of NVML 13 (nvmlClocksEventReason*; the same bits were called ThrottleReason before driver 535).
"""

from typing import NamedTuple


class ClockEvent(NamedTuple):
    """One bit. `harmful` says that something outside the workload holds the clocks down."""

    bit: int
    name: str
    harmful: bool
    meaning: str


HW_SLOWDOWN = 0x8
SW_THERMAL = 0x20
HW_THERMAL = 0x40
POWER_BRAKE = 0x80

EVENTS = (
    ClockEvent(0x1, "idle", False, "nothing runs on the GPU"),
    ClockEvent(0x2, "application clocks", False, "the clocks were set by a user (nvidia-smi -ac)"),
    ClockEvent(0x4, "software power cap", False, "the power limit holds, as it does under full load"),
    ClockEvent(
        HW_SLOWDOWN, "hardware slowdown", True, "the hardware halved the clocks or more: heat, power brake or fault"
    ),
    ClockEvent(0x10, "sync boost", False, "the clocks follow those of another GPU of the sync boost group"),
    ClockEvent(
        SW_THERMAL, "software thermal slowdown", True, "the driver lowers the clocks to keep below a temperature"
    ),
    ClockEvent(HW_THERMAL, "hardware thermal slowdown", True, "the GPU is too hot and the hardware halved its clocks"),
    ClockEvent(POWER_BRAKE, "hardware power brake", True, "the power supply or the chassis asked for less power"),
    ClockEvent(0x100, "display clock setting", False, "a display asks for these clocks"),
    ClockEvent(0x200, "board limit", False, "a limit of the board holds under load"),
    ClockEvent(0x400, "reliability", False, "the voltage for reliable operation holds under load"),
)


def named(mask: int) -> tuple[ClockEvent, ...]:
    """The events whose bit is set, the lowest bit first; unknown bits are passed over."""
    return tuple(event for event in EVENTS if mask & event.bit)


def harmful(mask: int) -> tuple[ClockEvent, ...]:
    """Those set that no healthy workload causes.

    The mask is a set of bits: "idle and power cap" is 0x5 and harmless (azurehpc-health-checks compared the whole
    number and took such combinations for throttling).
    """
    return tuple(event for event in named(mask) if event.harmful)
