"""How far this machine's clock is from its time source, as the time daemon tells it; nothing is changed.

chrony and ntpd slew a clock that is seconds off for hours, so they are asked (only where they run: asking must not
start them). systemd-timesyncd steps whatever is more than 0.4 s off (NTP_MAX_ADJUST of timesyncd-manager.c) and goes on
showing the offset that it measured before, so it is not asked; the rest it hands to the kernel, and adjtimex tells it.
"""

import re
from collections.abc import Callable

from gpudoctor.lazy import lazy_re
from gpudoctor.read.clock import ClockState, adjtimex, is_held
from gpudoctor.read.process import processes
from gpudoctor.read.reader import reader
from gpudoctor.read.system import System, attempt
from gpudoctor.snapshot import Reading, absent, missing, read

ASK_SECONDS = 1.0
"""A daemon on this machine answers within milliseconds, or not at all."""
STA_PLL = 0x0001  # <linux/timex.h>: the kernel corrects the offset that a daemon gave it
STA_NANO = 0x2000

CHRONY = "chronyc -n tracking"
CHRONY_TIME = lazy_re(
    r"^System time\s*:\s*([0-9]{1,12}(?:\.[0-9]{1,12})?) seconds (slow|fast) of NTP time", re.MULTILINE
)
CHRONY_LEAP = lazy_re(r"^Leap status\s*:\s*(.*\S)", re.MULTILINE)
NTP = "ntpq -n -c 'rv 0 leap,offset'"
NTP_OFFSET = lazy_re(r"\boffset=([+-]?[0-9]{1,12}(?:\.[0-9]{1,12})?)\b")
NTP_ALARM = lazy_re(r"\bleap=(?:11|3)\b|\bleap_alarm\b")


@reader("clock offset", "host.clock_offset_seconds")
def read_clock_offset(system: System, ask: Callable[[], ClockState] = adjtimex) -> Reading[float]:
    """Seconds that this clock is ahead (negative: behind); absent where no time daemon tells them."""
    try:
        running = {process.name for process in processes(system) if process.state != "Z"}
    except OSError:
        running = set()
    if "chronyd" in running:
        return attempt(CHRONY, lambda: from_chrony(_answer(system, "chronyc", "-n", "tracking")))
    if "ntpd" in running:
        return attempt(NTP, lambda: from_ntp(_answer(system, "ntpq", "-n", "-c", "rv 0 leap,offset")))
    source = "adjtimex"
    reading = attempt(source, ask)
    if not reading.is_read:
        return missing(source, reading.reason, reading.missing_kind or "failed")
    clock = reading.value
    if not is_held(clock) or not clock.status & STA_PLL:
        return absent(source, "no time daemon here tells the offset of the clock")
    return read(source, from_kernel(clock))


def _answer(system: System, command: str, *arguments: str) -> str:
    """Raises `OSError`."""
    try:
        return system.output(command, *arguments, seconds=ASK_SECONDS).decode("utf-8", "replace")
    except FileNotFoundError:
        raise OSError(f"the daemon runs, and there is no command {command} to ask it") from None


def from_kernel(clock: ClockState) -> float:
    """adjtimex's offset is what is still to be added to the clock, in microseconds or (STA_NANO) nanoseconds."""
    return -clock.offset / (1e9 if clock.status & STA_NANO else 1e6) + 0.0


def from_chrony(text: str) -> float:
    """ "System time : 0.000005 seconds slow of NTP time" is -5e-6. Raises `OSError` with chrony's reason for none."""
    leap = CHRONY_LEAP.search(text)
    match = CHRONY_TIME.search(text)
    if leap and leap[1].lower().startswith("not synchroni"):
        raise OSError("chrony is not synchronised to any source")
    if match is None:
        raise OSError(f"chrony did not say: {' '.join(text.split())[:80] or 'no answer'}")
    return -float(match[1]) + 0.0 if match[2] == "slow" else float(match[1])


def from_ntp(text: str) -> float:
    """ "leap=00, offset=-0.352": milliseconds of the servers relative to this clock. Raises `OSError`."""
    if NTP_ALARM.search(text):
        raise OSError("ntpd is not synchronised to any source")
    match = NTP_OFFSET.search(text)
    if match is None:
        raise OSError(f"ntpd did not say: {' '.join(text.split())[:80] or 'no answer'}")
    return -float(match[1]) / 1000 + 0.0
