"""Whether the kernel's clock is held by a time source: adjtimex(2)."""

import ctypes
import os
from collections.abc import Callable
from typing import NamedTuple

from gpudoctor.read.reader import Facts, reader
from gpudoctor.read.system import System, attempt
from gpudoctor.snapshot import read

STA_UNSYNC = 0x40  # <linux/timex.h>
TIME_ERROR = 5  # adjtimex's return value: the clock is not synchronised


class Timex(ctypes.Structure):
    """struct timex of <sys/timex.h>, as glibc and musl declare it."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("constant", ctypes.c_long),
        ("precision", ctypes.c_long),
        ("tolerance", ctypes.c_long),
        ("time", ctypes.c_long * 2),
        ("tick", ctypes.c_long),
        ("ppsfreq", ctypes.c_long),
        ("jitter", ctypes.c_long),
        ("shift", ctypes.c_int),
        ("stabil", ctypes.c_long),
        ("counts", ctypes.c_long * 4),
        ("tai", ctypes.c_int),
        ("reserved", ctypes.c_int * 11),
    )


class ClockState(NamedTuple):
    """adjtimex's return value, its status bits and its maximum error in microseconds."""

    state: int
    status: int
    maximum_error: int
    offset: int = 0
    """What is still to be added to the clock, in nanoseconds with STA_NANO and in microseconds without."""


def adjtimex() -> ClockState:
    """Ask, without changing anything (`modes` is 0). Raises `OSError` (EPERM under some seccomp filters)."""
    call = ctypes.CDLL(None, use_errno=True).adjtimex
    call.restype = ctypes.c_int
    buffer = Timex()
    state = call(ctypes.byref(buffer))
    if state < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return ClockState(state, buffer.status, buffer.maxerror, buffer.offset)


def is_held(clock: ClockState) -> bool:
    """Whether a time source keeps the clock."""
    return clock.state != TIME_ERROR and not clock.status & STA_UNSYNC


@reader("clock", "host.clock_synchronised", "host.clock_error_seconds")
def read_clock(system: System, ask: Callable[[], ClockState] = adjtimex) -> Facts:
    source = "adjtimex"
    reading = attempt(source, ask)
    if not reading.is_read:
        return {"host.clock_synchronised": reading, "host.clock_error_seconds": reading}
    clock = reading.value
    return {
        "host.clock_synchronised": read(source, is_held(clock)),
        "host.clock_error_seconds": read(source, clock.maximum_error / 1e6),
    }
