"""The IOMMU translates the addresses of GPUs that talk to each other over PCIe.

Why it matters: NVIDIA's driver does not support peer-to-peer copies over PCIe on bare metal while the IOMMU
translates (CUDA C++ Programming Guide, "IOMMU on Linux"). Collectives then hang, or silently deliver wrong data.
GPUs behind NVLink, cards without peer access, and virtual machines are not concerned.
"""

from gpudoctor.check import Command, Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.network.pcie_peers import is_bare_metal, pcie_peers
from gpudoctor.knowledge.wording import counted

# /sys/kernel/iommu_groups/*/type (Linux Documentation/ABI/testing/sysfs-kernel-iommu_groups).
TRANSLATING = ("DMA", "DMA-FQ")


@check("iommu-translation-on", title="The IOMMU leaves traffic between GPUs alone")
def iommu_translation_on(machine: Snapshot) -> Problems:
    pairs, groups = pcie_peers(machine), machine.host.iommu_group_types
    if not pairs or not is_bare_metal(machine):
        return
    translating = sum(groups.value.get(kind, 0) for kind in TRANSLATING)
    if translating:
        already = "iommu=pt" in machine.host.kernel_command_line.value_or("").split()
        yield Problem(
            severity="warning",
            summary=f"The IOMMU translates addresses in {translating} of {sum(groups.value.values())} groups, and "
            f"{counted(len(pairs) // 2, 'pair')} of GPUs exchange data over PCIe",
            meaning="Collectives between these GPUs can hang, run slowly or deliver wrong numbers.",
            evidence=(groups, machine.nvidia.peers),
            fix=Fix(
                "The kernel has iommu=pt and translates all the same: turn the IOMMU (VT-d, AMD-Vi) off in the BIOS."
                if already
                else "Start the kernel with iommu=pt (or turn VT-d or AMD-Vi off in the BIOS), then restart.",
                commands=() if already else _boot_option(machine.host.distribution.value_or("")),
            ),
        )


def _boot_option(distribution: str) -> tuple[Command, ...]:
    if distribution.startswith(("Ubuntu", "Debian")):
        return (
            command(
                "echo 'GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX iommu=pt\"' | sudo tee /etc/default/grub.d/90-iommu.cfg"
            ),
            command("sudo update-grub"),
        )
    if distribution.startswith(("Red Hat", "Rocky", "AlmaLinux", "CentOS", "Fedora", "Oracle")):
        return (command("sudo grubby --update-kernel=ALL --args=iommu=pt"),)
    return ()
