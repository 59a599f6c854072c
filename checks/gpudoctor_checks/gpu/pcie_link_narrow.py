"""A GPU's PCIe link runs with fewer lanes than GPU and slot support.

Why it matters: at half the lanes, copies between host and GPU, and between GPUs without NVLink, take twice as long. The
cause is a card that is not seated well, a damaged riser, or a slot that shares its lanes. The link's generation is not
judged here: it drops while a GPU is idle, to save power.
"""

from gpudoctor.check import Fix, Gpu, Problem, Problems, Snapshot, command, gpu_check
from gpudoctor.knowledge.gpus.by_hand import by_hand
from gpudoctor.knowledge.gpus.gpu_labels import label, sysfs_address
from gpudoctor.knowledge.gpus.gpu_models import is_superchip
from gpudoctor.knowledge.gpus.nvidia_hardware import is_in_laptop, perhaps_in_virtual_machine


@gpu_check(
    "pcie-link-narrow",
    title="PCIe links run at their full width",
    short="PCIe narrow",
    follows=("pcie-link-limited-by-slot",),
)
def pcie_link_narrow(gpu: Gpu, machine: Snapshot) -> Problems:
    width, possible = gpu.pcie_width.value, gpu.pcie_width_max.value
    if width >= possible:
        return
    # Notebooks wire 8 or 4 lanes to chips that could take 16, and a virtual machine's PCI bus is made up.
    # A superchip's copies take NVLink-C2C, and nobody can reseat it.
    if is_in_laptop(gpu, machine) or is_superchip(gpu.name.value):
        return
    virtual = perhaps_in_virtual_machine(machine)
    if virtual:
        return
    address = sysfs_address(gpu)
    yield Problem(
        severity="warning",
        summary=f"{label(gpu)} runs its PCIe link at x{width}; GPU and slot support x{possible}",
        meaning=f"Copies to and from this GPU run at about {width}/{possible} of their speed."
        + ("" if virtual is False else " In a virtual machine this means nothing: its PCI bus is made up."),
        evidence=(gpu.pcie_width, gpu.pcie_width_max),
        fix=Fix(
            *by_hand(
                machine,
                "Reseat the card or its riser, look for a slot that shares its lanes, and for the BIOS' bifurcation "
                "setting.",
                *((command("sudo lspci -vv -s {:pci} | grep LnkSta", address),) if address else ()),
                command("sudo dmesg -T | grep -i 'limited by'"),
            )
        ),
    )
