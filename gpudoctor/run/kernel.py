"""What the kernel's log says of this job, and of nobody else: it is one for the whole machine."""

import contextlib
import os
import time

from msgspec import Struct

from gpudoctor.knowledge.pci_address import in_sysfs
from gpudoctor.lazy import lazy_re
from gpudoctor.read.job.kernel import events
from gpudoctor.read.kernel_log import XID, KernelLine, read_lines
from gpudoctor.read.process import THIS, in_first_pid_namespace
from gpudoctor.run.end import ENDING_SECONDS, RunEnded
from gpudoctor.snapshot.evidence import KernelEvent

GPUS = "/proc/driver/nvidia/gpus"
DEVICE_MINOR = lazy_re(r"Device Minor:\s*([0-9]{1,5})\b")


class KernelSaid(Struct, frozen=True, kw_only=True):
    """Since the start."""

    lines: tuple[KernelLine, ...] = ()
    """Of processes of this job and of its GPUs."""
    names_others: bool = False
    """It names whom it ended for want of memory, and some were not seen in this job: a counter that
    strangers share tells nothing then."""
    unread: str = ""
    """Why it could not be asked."""

    @property
    def events(self) -> tuple[KernelEvent, ...]:
        return events(self.lines, time.monotonic())


def of_job(ended: RunEnded) -> KernelSaid:
    """What the kernel said of it."""
    reading = read_lines(THIS)
    if not reading.is_read:
        return KernelSaid(unread="the kernel's log may not be read")
    since = [line for line in reading.value if line.seconds is not None and line.seconds >= ended.began - 1.0]
    numbers = _numbers_are_ours()
    ours, others = [], False
    for line in since:
        for event in events([line], time.monotonic()):
            if _is_of_job(event, ended, numbers=numbers):
                ours.append(line)
            else:
                others |= numbers and event.kind == "oom"
    return KernelSaid(lines=tuple(ours), names_others=others)


def _is_of_job(event: KernelEvent, ended: RunEnded, *, numbers: bool) -> bool:
    """Whether the kernel speaks of a process of the job that a signal may have ended as it ended, or of a GPU that it
    may use. `numbers`: what the kernel calls a process is what we call it."""
    if event.kind == "xid" and (not event.pid or not numbers):
        address = XID.search(event.text)
        return address is None or not _is_kept_from_us(address[1])
    death = next((each for each in ended.ended if each.pid == event.pid and not each.host), None)
    if not numbers or event.pid not in (ended.pid, *ended.pids):
        return False
    if event.kind == "xid" or death is None:
        return True
    return (death.status is None or death.status < 0) and ended.seconds - death.seconds <= ENDING_SECONDS


def _is_kept_from_us(address: str) -> bool:
    """Whether the cgroup or the container keeps this GPU from us: then it is another job's."""
    try:
        told = THIS.text_or_empty(f"{GPUS}/{in_sysfs(address)}/information")
    except ValueError:
        return False
    minor = DEVICE_MINOR.search(told)
    if minor is None:  # a container's toolkit shows those of the container alone
        return not told and bool(THIS.names_or_none(GPUS))
    return not os.access(f"/dev/nvidia{minor[1]}", os.R_OK | os.W_OK)


def _numbers_are_ours() -> bool:
    """Whether the kernel's log calls processes as this PID namespace does: in a container their numbers are others'."""
    with contextlib.suppress(OSError):
        return in_first_pid_namespace(THIS)
    return False
