"""What it means that a signal ended a rank: the same whoever tells it, and in whatever form."""

import signal
from collections.abc import Mapping
from typing import NamedTuple

from gpudoctor.cause import Judged
from gpudoctor.lazy import lazy_re
from gpudoctor.sure import LIKELY, SEEN


class Ending(NamedTuple):
    """What it means that a signal ended a rank."""

    cause: str
    variant: str
    confidence: float
    words: str


CRASHED = Ending("native-crash", "", SEEN, "crashed in native code: {name}")
OF_SIGNAL: Mapping[int, Ending] = {
    4: Ending("native-crash", "instruction", SEEN, "ended by {name}, an instruction that the processor does not have"),
    7: Ending("shm-too-small", "bus", LIKELY, "ended by {name}, as it does when /dev/shm is full"),
    8: CRASHED,
    9: Ending("rank-died", "sigkill", SEEN, "was killed by {name}"),
    11: CRASHED,
    31: CRASHED,
}
"""The same whoever tells it: torchrun, spawn, srun, mpirun, DeepSpeed, a shell, a container's status, the kernel. Not
here: signals by which a process is asked to end, and SIGABRT, by which it ends itself and says why."""
JUDGED: Mapping[int, Judged] = {
    signal.SIGXCPU: Judged("limits", "environment", "after a fix"),
    signal.SIGXFSZ: Judged("limits", "environment", "after a fix"),
    signal.SIGINT: Judged("user-interrupt", "user", "as it is"),
}
OF_STATUS: Mapping[int, Judged] = {
    126: Judged("permission", "environment", "after a fix"),
    127: Judged("file-missing", "environment", "after a fix"),
    0xC0000005: Judged("signal", "program", "not decided"),
    0xC000001D: Judged("signal", "program", "not decided"),
    0xC00000FD: Judged("signal", "program", "not decided"),
    0xC0000374: Judged("signal", "program", "not decided"),
    0xC0000409: Judged("signal", "program", "not decided"),
    0xC0000017: Judged("host-memory", "program", "after a fix"),
    0xC000012D: Judged("host-memory", "program", "after a fix"),
    0xC0000135: Judged("dependency-mismatch", "environment", "after a fix"),
    0xC0000139: Judged("dependency-mismatch", "environment", "after a fix"),
    0xC000013A: Judged("user-interrupt", "user", "as it is"),
}
"""Shells' statuses of what cannot be run and of what is not there (POSIX, 2.8.2), docker's alike; Windows' NTSTATUS, by
which processes end there (ntstatus.h)."""
NTSTATUS = lazy_re(r"(?<![\w.])(?:(?P<unsigned>3221\d{6})|(?P<signed>-107374\d{4})|0x(?P<hex>[Cc]000[0-9A-Fa-f]{4}))\b")
STATUS_OF_SIGNAL = 128
NAMES = {
    name.lower().replace("-", " "): number
    for number in (6, *OF_SIGNAL)
    for name in (str(number), signal.Signals(number).name, signal.strsignal(number) or "")
}


def signal_named(text: str) -> signal.Signals | None:
    """Of "15", "SIGTERM" or "TERM"."""
    name = f"SIG{text.upper().removeprefix('SIG')}"
    return next((number for number in signal.Signals if text == str(number.value) or name == number.name), None)


def signal_number(exitcode: int) -> int:
    """The signal that an exit status stands for: -9 and 137 are 9; 0 where it is none."""
    if exitcode < 0:
        return -exitcode
    return exitcode - STATUS_OF_SIGNAL if STATUS_OF_SIGNAL < exitcode < 160 else 0


def signal_told(values: Mapping[str, str]) -> int:
    """The signal that a line tells by its number, its name, its words or an exit status; 0 where it tells none."""
    number = NAMES.get(values.get("signal", "").lower().replace("-", " "), 0)
    return number or signal_number(int(values.get("exitcode", 0)))


def ending_of(values: Mapping[str, str]) -> Ending | None:
    """What the signal means that a line tells."""
    return OF_SIGNAL.get(signal_told(values))


def judged_status_of_windows(text: str) -> Judged | None:
    """By an NTSTATUS, in the forms in which launchers write it: without and with a sign, and as a hexadecimal "
    "number."""
    match = NTSTATUS.search(text)
    if match is None:
        return None
    number = int(match["hex"], 16) if match["hex"] else int(match["unsigned"] or match["signed"])
    return OF_STATUS.get(number % 2**32)


def judged_status_of_end(exitcode: int) -> Judged | None:
    """Where nothing but the status of an end is known."""
    number = signal_number(exitcode)
    return OF_STATUS.get(exitcode) or (judged_signal(number) if number else None)


def judged_signal(number: int) -> Judged:
    """Where nothing but the signal is known."""
    return JUDGED.get(number, Judged("signal", "program", "not decided"))
