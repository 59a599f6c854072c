"""A GPU stands on the PCI bus and does not answer there: lspci shows it as "(rev ff)".

Why it matters: a device whose configuration space reads all ones has fallen off the bus (Xid 79), lost its power or
hangs; no driver can use it, and programs that wait for it hang. A laptop's GPU that is switched off to save power reads
so too.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.accelerator_kinds import is_amd_graphics, is_amd_instinct, is_nvidia_gpu
from gpudoctor.knowledge.gpus.by_hand import by_hand
from gpudoctor.knowledge.gpus.gpu_models import is_consumer, is_laptop
from gpudoctor.knowledge.wording import listed
from gpudoctor.snapshot import PciDevice, read


@check("gpu-silent-on-pci", title="Every GPU answers on the PCI bus", short="off the bus")
def gpu_silent_on_pci(machine: Snapshot) -> Problems:
    devices = machine.accelerators.pci.value
    kinds = (is_nvidia_gpu, is_amd_graphics, is_amd_instinct)
    gpus = [device for device in devices if any(kind(device) for kind in kinds)]
    silent = [device for device in gpus if device.is_silent]
    if not silent:
        return
    may_sleep = len(gpus) < 3 and all(is_laptop(device.model) or is_consumer(device.model) for device in silent)
    yield Problem(
        severity="warning" if may_sleep else "error",
        summary=f"{listed((_named(device) for device in silent), 3)} {'does' if len(silent) == 1 else 'do'} not answer "
        "on the PCI bus (lspci: rev ff)",
        meaning="No program can use it; a job that used it hangs or has died."
        + (" On a laptop it may be switched off to save power." if may_sleep else ""),
        evidence=tuple(read(f"{machine.accelerators.pci.source} {device.bus_id}", "rev ff") for device in silent[:4]),
        fix=Fix(
            *by_hand(
                machine,
                "When it happens again, have the card, its power and its riser looked at.",
                *(command("sudo lspci -vv -s {:pci}", device.bus_id) for device in silent[:4]),
                command("sudo dmesg -T | grep -iE 'xid|fallen off the bus|pcie'"),
                first="Drain the machine and power-cycle it (off and on, not a reboot).",
            )
        ),
    )


def _named(device: PciDevice) -> str:
    return f"the {device.model} at {device.bus_id}" if device.model else f"the GPU at {device.bus_id}"
