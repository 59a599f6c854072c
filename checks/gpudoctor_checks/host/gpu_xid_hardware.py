"""The NVIDIA driver logged an error (Xid) that points to hardware or needs a reset.

Why it matters: after such an error the GPU is lost, slow or computes on damaged memory until it is reset, the machine
restarts, or somebody looks at the board. Jobs started on it hang or die. The kernel log names the GPU, which no
traceback does.
"""

from gpudoctor.check import Command, Fix, Problem, Problems, Severity, Snapshot, check, command
from gpudoctor.knowledge.gpus.gpu_lookup import gpus_at, place, selector
from gpudoctor.knowledge.gpus.xid import UNKNOWN, Action, Xid, by_code, explain, is_recent, latest, times
from gpudoctor.snapshot import XidEvent, read

TEXTS: dict[Action, str] = {
    "none": "Look the code up with the driver's report, and show it to the machine's vendor when it comes back.",
    "restart-job": "Restart the job; the GPU stays usable, and the next reset replaces the bad memory.",
    "reset-gpu": "End what uses the GPU and reset it; when the error comes back, have the board looked at.",
    "reboot": "Drain the machine, save the driver's report, and power-cycle it; a second time means the board, its "
    "cable or slot.",
    "check-power": "Power the machine off, and connect the board's power cables.",
    "check-nvlink": "See which link counts errors and reset the GPU; when they return, have bridge or board reseated.",
    "update-driver": "Install the guest driver that fits the host's vGPU software.",
    "restart-vm": "Restart the virtual machine.",
}


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
        + (
            "The job that used it was stopped; a new one runs."
            if xid.action == "restart-job"
            else "Jobs on it hang or die until this is mended."
        ),
        evidence=(read(log.source, latest(events).message or f"Xid {xid.code}"),),
        fix=Fix(TEXTS[xid.action], commands=_commands(xid.action, [selector(cards, address) for address in addresses])),
        gpus=tuple(gpu.index for gpu in gpus_at(cards, addresses)),
    )


def _severity(machine: Snapshot, xid: Xid, events: list[XidEvent]) -> Severity:
    cards = machine.nvidia.gpus.value_or(())
    in_container = machine.host.container.value_or("none") != "none"
    if cards and in_container and not gpus_at(cards, (event.pci_bus_id for event in events)):
        return "info"  # the log is the whole host's, and this container was given other GPUs
    # A GPU may have been reset since an old event; what is still wrong with it, the checks of gpu/ say.
    if xid.action == "restart-job" or xid.name == UNKNOWN or not any(map(is_recent, events)):
        return "warning"
    return "error"


def _commands(action: Action, selectors: list[str]) -> tuple[Command, ...]:
    first = command("sudo dmesg -T | grep -E 'NVRM: Xid' | tail -n 20")
    if action == "reset-gpu":
        return (first, *(command("sudo nvidia-smi --gpu-reset -i {:name}", selected) for selected in selectors))
    if action == "check-nvlink":
        return (first, *(command("nvidia-smi nvlink -e -i {:name}", selected) for selected in selectors))
    return (first, command("sudo nvidia-bug-report.sh")) if action in ("reboot", "none") else (first,)
