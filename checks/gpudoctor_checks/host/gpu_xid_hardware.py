"""The NVIDIA driver logged an error (Xid) that points to hardware or needs a reset.

Why it matters: after such an error the GPU is lost, slow or computes on damaged memory until it is reset, the machine
restarts, or somebody looks at the board. Jobs started on it hang or die. The kernel log names the GPU, which no
traceback does.
"""

from gpudoctor.check import Command, Fix, Problem, Problems, Severity, Snapshot, check, command
from gpudoctor.knowledge.explaining import BAD_MEMORY, GPU_LOST, NVLINK_DOWN
from gpudoctor.knowledge.gpus.gpu_lookup import gpus_at, place, selector
from gpudoctor.knowledge.gpus.xid import (
    OF_A_LOST_GPU,
    OF_MEMORY,
    OF_NVLINK,
    UNKNOWN,
    Action,
    Xid,
    by_code,
    explain,
    is_recent,
    latest,
    times,
)
from gpudoctor.snapshot import XidEvent, read

TEXTS: dict[Action, str] = {
    "none": "Look the code up with the driver's report, and show it to the machine's vendor when it comes back.",
    "restart-job": "Restart the job; the GPU stays usable, and the next reset replaces the bad memory.",
    "reset-gpu": "End what uses the GPU and reset it; when the error comes back, have the board looked at.",
    "reboot": "Drain the machine, save the driver's report, and power-cycle it; a second time means the hardware.",
    "check-power": "Power the machine off, and connect the board's power cables.",
    "check-nvlink": "See which link counts errors and reset the GPU; when they return, the vendor has to look.",
    "update-driver": "Install the guest driver that fits the host's vGPU software.",
    "restart-vm": "Restart the virtual machine.",
    "contact-support": "Look for another Xid at the same time, which explains it; when it stands alone or comes back, "
    "show the driver's report to the machine's vendor or NVIDIA.",
}

MEANINGS: dict[Action, str] = {
    "restart-job": "The job that used it was stopped; a new one runs.",
    "contact-support": "NVIDIA names no cure for it; a job that ran at that time may have died of it.",
}

FOLLOWS = ((OF_MEMORY, BAD_MEMORY), (OF_NVLINK, NVLINK_DOWN), (OF_A_LOST_GPU, GPU_LOST))
"""What NVML says of the same GPU knows more than the log: what is wrong with it now."""


@check("gpu-xid-hardware", title="The kernel log holds no hardware errors of GPUs")
def gpu_xid_hardware(machine: Snapshot) -> Problems:
    log = machine.host.kernel_log
    for code, events in by_code(event for event in log.value.events if not event.is_switch).items():
        xid = explain(code)
        if xid.level == "hardware":
            yield _problem(machine, xid, events)


def _problem(machine: Snapshot, xid: Xid, events: list[XidEvent]) -> Problem:
    log, addresses = machine.host.kernel_log, list(dict.fromkeys(event.pci_bus_id for event in events))
    # Only to name them: a GPU that fell off the bus is in the log and nowhere else.
    cards = machine.nvidia.gpus.value_or(())
    return Problem(
        severity=_severity(machine, xid, events),
        summary=f"Xid {xid.code} ({xid.name}) on {place(cards, addresses)}, {times(events)}",
        meaning=f"{xid.meaning[0].upper()}{xid.meaning[1:]}. "
        + MEANINGS.get(xid.action, "Jobs on it hang or die until this is mended."),
        evidence=(read(log.source, latest(events).message or f"Xid {xid.code}"),),
        fix=Fix(TEXTS[xid.action], commands=_commands(xid.action, [selector(cards, address) for address in addresses])),
        gpus=tuple(gpu.index for gpu in gpus_at(cards, addresses)),
        follows=next((checks for codes, checks in FOLLOWS if xid.code in codes), ()),
        short=f"Xid {xid.code}",
    )


def _severity(machine: Snapshot, xid: Xid, events: list[XidEvent]) -> Severity:
    cards = machine.nvidia.gpus.value_or(())
    in_container = machine.host.container.value_or("none") != "none"
    if cards and in_container and not gpus_at(cards, (event.pci_bus_id for event in events)):
        return "info"  # the log is the whole host's, and this container was given other GPUs
    # A GPU may have been reset since an old event; what is still wrong with it, the checks of gpu/ say.
    if xid.action in MEANINGS or xid.name == UNKNOWN or not any(map(is_recent, events)):
        return "warning"
    return "error"


def _commands(action: Action, selectors: list[str]) -> tuple[Command, ...]:
    first = command("sudo dmesg -T | grep -E 'NVRM: Xid' | tail -n 20")
    if action == "reset-gpu":
        return (first, *(command("sudo nvidia-smi --gpu-reset -i {:name}", selected) for selected in selectors))
    if action == "check-nvlink":
        return (first, *(command("nvidia-smi nvlink -e -i {:name}", selected) for selected in selectors))
    return (
        (first, command("sudo nvidia-bug-report.sh")) if action in ("reboot", "none", "contact-support") else (first,)
    )
