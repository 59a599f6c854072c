"""What the kernel's log says of processes and GPUs of a job: OOM kills, segmentation faults, Xid events."""

from collections.abc import Iterable

from gpudoctor.lazy import lazy_re
from gpudoctor.read.kernel_log import XID, KernelLine
from gpudoctor.snapshot.evidence import KernelEvent

MOST_EVENTS = 256
LONGEST_TEXT = 400
OOM = lazy_re(r"[Oo]ut of memory.{0,40}?: Kill(?:ed)? process ([0-9]{1,10}) \(")
"""Also "Memory cgroup out of memory: Killed process 123 (python) total-vm:..."."""
SEGFAULT = lazy_re(r"^(?:\S+ )?.{1,16}\[([0-9]{1,10})\]: segfault at |traps: .{1,16}\[([0-9]{1,10})\] ")
XID_PID = lazy_re(r"\bpid='?([0-9]{1,10})")


def events(lines: Iterable[KernelLine], now: float) -> tuple[KernelEvent, ...]:
    """The newest events, the oldest of them first; `now` is the kernel's clock in seconds."""
    kernel_events: list[KernelEvent] = []
    for line in lines:
        ago = None if line.seconds is None else max(0.0, round(now - line.seconds, 1))
        text = line.text[:LONGEST_TEXT]
        if killed := OOM.search(line.text):
            kernel_events.append(KernelEvent(kind="oom", text=text, pid=int(killed[1]), seconds_ago=ago))
        elif XID.search(line.text):
            match = XID_PID.search(line.text)
            kernel_events.append(KernelEvent(kind="xid", text=text, pid=int(match[1]) if match else 0, seconds_ago=ago))
        elif fault := SEGFAULT.search(line.text):
            kernel_events.append(
                KernelEvent(kind="segfault", text=text, pid=int(fault[1] or fault[2]), seconds_ago=ago)
            )
    return tuple(kernel_events[-MOST_EVENTS:])
