"""A process hangs in the kernel, inside the NVIDIA driver.

Why it matters: a process in state D waits for the driver or the GPU and cannot be killed. CUDA, nvidia-smi and NVML
hang behind it one after another, and the GPU stays taken until the machine restarts.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.wording import counted
from gpudoctor.lazy import lazy_re
from gpudoctor.snapshot import StuckProcess

# Functions of nvidia.ko (nv_*, nvidia_*, os_*, rm_*, _nv*) and nvidia-uvm.ko (uvm_*) in /proc/PID/wchan.
DRIVER_FUNCTION = lazy_re(r"_?nv|uvm_|rm_|os_(acquire|wait|delay|schedule|pat|pci|ioctl)")
# gpud's rule, for processes whose wchan may not be read.
DRIVER_NAME = lazy_re(r"nvidia|nv[-_]")
# Any call into a driver may show state D for a moment; gpud asks for five sightings, a second look is not ours.
GRACE_SECONDS = 30.0


@check("process-stuck-in-driver", title="No process hangs in the NVIDIA driver")
def process_stuck_in_driver(machine: Snapshot) -> Problems:
    processes = machine.host.stuck_processes
    for process in processes.value:
        if _is_stuck(process):
            where = f" in {process.waits_in}" if process.waits_in else ""
            age = f", {counted(int(process.age_seconds), 'second')} old" if process.age_seconds is not None else ""
            yield Problem(
                severity="error",
                summary=f"Process {process.pid} ({process.name}) hangs in the kernel{where} (state D{age})",
                meaning="It cannot be killed, and whatever asks its GPU next hangs too.",
                evidence=(processes,),
                fix=Fix.of(
                    "See where it waits and whether the kernel log names a GPU; when it stays there, drain the machine "
                    "and restart it.",
                    command("sudo cat /proc/{:pid}/stack", process.pid),
                    command("sudo dmesg -T | grep -E 'NVRM|Xid' | tail"),
                ),
            )


def _is_stuck(process: StuckProcess) -> bool:
    if process.state != "D" or (process.age_seconds is not None and process.age_seconds < GRACE_SECONDS):
        return False
    # A Python that waits for a disk or NFS is in state D too; path-unresponsive speaks of those.
    if process.waits_in.strip("0"):
        return DRIVER_FUNCTION.match(process.waits_in) is not None
    return DRIVER_NAME.match(process.name) is not None
