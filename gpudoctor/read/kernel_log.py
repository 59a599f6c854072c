"""What the kernel log says of GPUs: Xid and SXid events, limited PCIe links, out-of-memory kills.

Read from /dev/kmsg, else from the journal, else by dmesg, whichever lets us. A log that nobody lets us read, or
that is empty (as some containers show it), is not a log without errors.
"""

import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from gpudoctor.knowledge.pci_address import in_sysfs
from gpudoctor.lazy import lazy_re
from gpudoctor.read.reader import reader
from gpudoctor.read.system import System
from gpudoctor.snapshot import KernelLog, LinkLimit, Missing, Reading, XidEvent, read

KMSG = "/dev/kmsg"
RECORD_BYTES = 16384
"""read(2) of /dev/kmsg gives one record, at most CONSOLE_EXT_LOG_MAX (8192) bytes; EINVAL for a smaller buffer."""
MAXIMUM_LOG_BYTES = 16 * 1024 * 1024
"""The largest ring buffer in use is a few MiB (log_buf_len=); a log that grows while we read must end."""
JOURNAL_LINES = 20000
KEPT_PER_ERROR = 20
"""A broken GPU can log the same Xid many thousand times; the newest of each code and device are kept."""
KEPT_OTHERS = 200
MAXIMUM_MESSAGE = 400

# NVIDIA's open kernel modules print (kernel_rc.c)
#   NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus.
#   NVRM: Xid (PCI:0000:01:00 GPU-I:05 GPU-CI:00): 94, pid=7194, Contained: ...
# and drivers before 367 had no "PCI:".
XID = lazy_re(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]{4,20})[^)]{0,40}\)[^:]{0,40}: ([0-9]{1,5})(?:,|$)\s*(.*)")
# NVRM: The NVIDIA GPU 0000:b3:00.0 / NVRM: (PCI ID: 10de:26b5) installed in this system has / NVRM: fallen off the
# bus and is not responding to commands.   (nv.c, as the driver is loaded: the words of Xid 79, without its number)
FALLEN = lazy_re(r"fallen off the bus and is not responding")
THE_GPU = lazy_re(r"The NVIDIA GPU ([0-9a-fA-F:.]{4,20})")
LINES_OF_FALLEN = 3
GPU_LOST = 79
# nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error (First)
SXID = lazy_re(r"SXid \((?:PCI:)?([0-9a-fA-F:.]{4,20})[^)]{0,40}\): ([0-9]{1,6}),\s*(.*)")
# pci 0000:3b:00.0: 63.008 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8 link at ... (drivers/pci/pci.c)
LINK_LIMIT = lazy_re(r"([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]): (.*available PCIe bandwidth.*)")
# Out of memory: Killed process 123 (python) ... / Memory cgroup out of memory: Killed process 123 (python) ...
OOM_KILL = lazy_re(r"[Oo]ut of memory: Kill(?:ed)? process [0-9]+ \((.{1,64}?)\)(?:,| |$)")


class KernelLine(NamedTuple):
    """One message; `seconds` is its time on the kernel's clock, None when the line does not tell."""

    seconds: float | None
    text: str


# --- parsers ------------------------------------------------------------------------------------------------------


def parse_kmsg(raw: bytes) -> Iterator[KernelLine]:
    """/dev/kmsg's records: "6,339,5140900,-;NVRM: loading" and indented continuation lines, which say nothing here."""
    for record in raw.decode("utf-8", "replace").split("\n"):
        head, semicolon, text = record.partition(";")
        fields = head.split(",")
        if semicolon and len(fields) >= 3 and re.fullmatch("[0-9]{1,18}", fields[2]):
            yield KernelLine(int(fields[2]) / 1e6, text)


def parse_printed(raw: bytes) -> Iterator[KernelLine]:
    """What dmesg and `journalctl -o short-monotonic` print: "[ 5.140900] NVRM: ..." (the journal: "host kernel: ")."""
    for printed in raw.decode("utf-8", "replace").splitlines():
        match = re.match(r"\[\s*([0-9]{1,12}(?:\.[0-9]{1,9})?)\]\s?(?:\S+ kernel: )?(.*)", printed)
        if match:
            yield KernelLine(float(match[1]), match[2])
        elif printed and not printed.startswith("--"):  # the journal's own remarks
            yield KernelLine(None, printed)


def examine(lines: Iterable[KernelLine], now: float) -> KernelLog:
    """The events in a log; `now` is the kernel's clock in seconds."""
    events: deque[XidEvent] = deque()
    counts: dict[tuple[int, str], int] = {}
    limits: dict[str, LinkLimit] = {}
    kills: deque[str] = deque(maxlen=KEPT_OTHERS)
    ordered = list(lines)
    for place in reversed(range(len(ordered))):
        line = ordered[place]
        if event := _event(line, now) or _lost_at_start(ordered[max(0, place + 1 - LINES_OF_FALLEN) : place + 1], now):
            key = (event.code, event.pci_bus_id)
            counts[key] = counts.get(key, 0) + 1
            if counts[key] <= KEPT_PER_ERROR:
                events.appendleft(event)
        elif match := LINK_LIMIT.search(line.text):
            # The newest line of a device is the one that holds: a link can be retrained.
            if len(limits) < KEPT_OTHERS:
                limits.setdefault(_bus_id(match[1]), LinkLimit(_bus_id(match[1]), match[2][:MAXIMUM_MESSAGE]))
        elif match := OOM_KILL.search(line.text):
            kills.append(match[1])
    return KernelLog(tuple(events), tuple(reversed(limits.values())), tuple(reversed(kills)))


def _event(line: KernelLine, now: float) -> XidEvent | None:
    ago = _ago(line, now)
    if match := SXID.search(line.text):
        severity = match[3].lower()
        fatal = False if severity.startswith("non-fatal") else True if severity.startswith("fatal") else None
        return XidEvent(int(match[2]), _bus_id(match[1]), match[3][:MAXIMUM_MESSAGE], True, ago, fatal)
    if match := XID.search(line.text):
        return XidEvent(int(match[2]), _bus_id(match[1]), match[3][:MAXIMUM_MESSAGE], False, ago)
    return None


def _lost_at_start(lines: Sequence[KernelLine], now: float) -> XidEvent | None:
    """Where the last of them ends the message of a GPU that is not there any more as the driver is loaded."""
    if not FALLEN.search(lines[-1].text):
        return None
    address = next((match[1] for line in reversed(lines) if (match := THE_GPU.search(line.text))), None)
    if address is None:
        return None
    message = "the NVIDIA GPU has fallen off the bus and is not responding to commands, as the driver was loaded"
    return XidEvent(GPU_LOST, _bus_id(address), message, False, _ago(lines[-1], now))


def _ago(line: KernelLine, now: float) -> float | None:
    return None if line.seconds is None else max(0.0, now - line.seconds)


def _bus_id(address: str) -> str:
    """As sysfs writes it; what is no address stays as it was logged."""
    try:
        return in_sysfs(address)
    except ValueError:
        return address.lower()


# --- readers ------------------------------------------------------------------------------------------------------


def kmsg_records(file: int, read_record: Callable[[int, int], bytes] = os.read) -> bytes:
    """Every record that the ring buffer holds now. Raises `OSError`."""
    records: list[bytes] = []
    size = 0
    while size < MAXIMUM_LOG_BYTES:
        try:
            record = read_record(file, RECORD_BYTES)
        except BlockingIOError:  # the end
            break
        except BrokenPipeError:  # EPIPE: the record was overwritten under us; the next read gives the next one
            continue
        if not record:
            break
        records.append(record)
        size += len(record)
    return b"".join(records)


def from_kmsg(system: System) -> list[KernelLine]:
    """Raises `OSError` (EPERM with kernel.dmesg_restrict=1 and no CAP_SYSLOG)."""
    file = os.open(system.at(KMSG), os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        return list(parse_kmsg(kmsg_records(file)))
    finally:
        os.close(file)


def from_journal(system: System) -> list[KernelLine]:
    """This boot's kernel messages (-k), for root and the groups adm and systemd-journal. Raises `OSError`."""
    arguments = ("-k", "-o", "short-monotonic", "--no-pager", "-q", "-n", str(JOURNAL_LINES))
    return [line for line in parse_printed(system.output("journalctl", *arguments)) if line.seconds is not None]


def from_dmesg(system: System) -> list[KernelLine]:
    """syslog(2), by util-linux or busybox. Raises `OSError`."""
    return list(parse_printed(system.output("dmesg")))


SOURCES: tuple[tuple[str, Callable[[System], list[KernelLine]]], ...] = (
    (KMSG, from_kmsg),
    ("journalctl -k", from_journal),
    ("dmesg", from_dmesg),
)
HOW_TO_READ = (
    "run gpudoctor as root (and on the host, not in a container), or allow it: sudo sysctl kernel.dmesg_restrict=0"
)


@reader("kernel log", "host.kernel_log")
def read_log(system: System, clock: Callable[[], float] = time.monotonic) -> Reading[KernelLog]:
    """The first source that yields a line. The kernel stamps its messages with the clock that `monotonic` reads."""
    lines = read_lines(system)
    if not lines.is_read:
        return Reading(lines.source, missing=lines.missing)
    return read(lines.source, examine(lines.value, clock()))


def read_lines(system: System) -> Reading[list[KernelLine]]:
    """What the first source that yields a line says."""
    reasons: list[str] = []
    denied = False
    for name, get in SOURCES:
        try:
            lines = get(system)
        except FileNotFoundError:
            reasons.append(f"{name}: not there")
        except PermissionError:
            reasons.append(f"{name}: permission denied")
            denied = True
        except OSError as error:
            reasons.append(f"{name}: {error.strerror or error}")
        else:
            if any("Starting gVisor" in line.text for line in lines):
                reasons.append(f"{name}: shows gVisor's own log, not the host's")
                denied = True
            elif lines:
                return read(name, lines)
            else:  # what dmesg and journalctl print to those who may not read
                reasons.append(f"{name}: shows nothing")
                denied = True
    names = ", ".join(name for name, _ in SOURCES)
    reason = f"the kernel log could not be read ({'; '.join(reasons)}); {HOW_TO_READ}"
    return Reading(names, missing=Missing(reason, "denied" if denied else "failed"))
