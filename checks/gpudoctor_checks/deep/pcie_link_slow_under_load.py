"""A GPU's PCIe link stays at a lower generation while it copies.

Why it matters: an idle link drops its generation to save power and comes back under load. One that does not come back
was trained slower at boot (a bad riser or cable, a BIOS setting, a marginal slot), and halves the speed of every copy.
"""

from gpudoctor.check import Command, Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.gpus.by_hand import by_hand
from gpudoctor.knowledge.gpus.gpu_labels import sysfs_address
from gpudoctor.knowledge.gpus.gpu_models import is_laptop, is_superchip
from gpudoctor.knowledge.pytorch.torch_devices import gpu_tested, named
from gpudoctor.snapshot import absent, missing

MOST_DOUBLINGS = 8
"""Of a lane's rate from generation to generation; more is a driver's lie, of which no power is computed."""


@check(
    "pcie-link-slow-under-load",
    title="PCIe links reach their generation under load",
    short="PCIe slow",
    follows=("pcie-link-narrow",),
)
def pcie_link_slow_under_load(machine: Snapshot) -> Problems:
    smoke = machine.active.smoke
    if all(target.device == "cpu" for target in smoke.value):
        _ = absent("CUDA smoke test", "it ran on the CPU").value
    unread = None
    for target in smoke.value:
        result = target.result.value_or(None)
        loaded = result.pcie_generation_loaded if result else None
        gpu = gpu_tested(machine, target)
        if gpu is None or loaded is None or not gpu.pcie_generation_max.is_read:
            unread = target.device
            continue
        possible = gpu.pcie_generation_max
        name = gpu.name.value_or("")
        if loaded >= possible.value or is_laptop(name) or is_superchip(name):  # a superchip copies over NVLink-C2C
            continue
        lines: tuple[Command, ...] = (command("sudo dmesg -T | grep -i 'limited by'"),)
        if sysfs_address(gpu):
            lines = (command("sudo lspci -vv -s {:pci} | grep -E 'LnkCap|LnkSta'", sysfs_address(gpu)), *lines)
        yield Problem(
            severity="warning",
            summary=f"{named(target, gpu)} copies over PCIe {loaded}; GPU and slot support PCIe {possible.value}",
            meaning=f"Its copies run at about 1/{2 ** min(possible.value - loaded, MOST_DOUBLINGS)} of their speed.",
            evidence=(target.result, possible),
            fix=Fix(
                *by_hand(
                    machine,
                    "Set the slot's speed in the BIOS to its maximum, reseat the card, exchange riser or cable.",
                    *lines,
                )
            ),
            gpus=(gpu.index,),
        )
    if unread:
        _ = missing(f"CUDA smoke test {unread}", "the PCIe link was not read under load").value
