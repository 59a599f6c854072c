"""HIP_VISIBLE_DEVICES selects devices that ROCR_VISIBLE_DEVICES has taken away.

Why it matters: on AMD GPUs ROCR_VISIBLE_DEVICES filters first and numbers what is left from 0; HIP_VISIBLE_DEVICES then
counts in that shorter list. With the same host numbers in both, devices vanish; with more entries in the second than in
the first, PyTorch raises "HIP_VISIBLE_DEVICES contains more devices than ROCR_VISIBLE_DEVICES".
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.visible.entries import entries, shown
from gpudoctor.knowledge.visible.now import variable
from gpudoctor.knowledge.wording import counted
from gpudoctor.snapshot import NotApplicable, absent

HIP, ROCR = "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"
AMD = "0x1002"
COMPUTE_CLASSES = ("0x03", "0x12")  # PCI base classes 03, display controllers, and 12, processing accelerators


@check("hip-rocr-visible-devices-conflict", title="HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES fit together")
def hip_rocr_visible_devices_conflict(machine: Snapshot) -> Problems:
    environment, pci = machine.environment.value, machine.accelerators.pci
    # Slurm sets ROCR_VISIBLE_DEVICES on NVIDIA machines too, where nothing reads it.
    if not any(device.vendor == AMD and device.device_class.startswith(COMPUTE_CLASSES) for device in pci.value):
        raise NotApplicable(absent(pci.source, "no AMD GPU on this machine"))
    hip, rocr = environment.get(HIP), environment.get(ROCR)
    if hip is None or rocr is None:
        return
    left, wanted = len(rocr.split(",")), entries(hip)
    past = [entry for entry in wanted if entry.form == "ordinal" and entry.number >= left]
    if len(wanted) > left:
        seen = f"{HIP} has {counted(len(wanted), 'device')}, {ROCR} leaves {left}"
        meaning = "PyTorch raises a RuntimeError at its first look at the devices."
    elif past:
        seen = f"{HIP} names {shown(past[0].text)}; {ROCR} leaves {left}, numbered from 0 to {left - 1}"
        meaning = "The list ends there: fewer devices than named are visible, or none."
    else:
        return
    yield Problem(
        severity="error",
        summary=seen,
        meaning=meaning,
        fix=Fix(f"Select the GPUs in {ROCR} alone.", commands=(command("unset {:variable}", HIP),)),
        evidence=(variable(machine, HIP), variable(machine, ROCR)),
    )
