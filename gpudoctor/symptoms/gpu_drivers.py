"""What keeps a driver of GPUs from serving them, in the words of modprobe, NVIDIA's driver as it is loaded, amdgpu and
systemd.

Texts as in kmod tools/modprobe.c, open-gpu-kernel-modules kernel-open/nvidia (nv.c, nv-pci.c) and src/nvidia
(osinit.c), Linux drivers/gpu/drm/amd/amdgpu (amdgpu_ras.c, amdgpu_device.c), systemd systemctl-show.c.
"""

from gpudoctor.symptom import PROVED, Symptom

ADDRESS = r"(?P<address>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
UNTRUSTED = "Key was rejected by service|Required key not available|Operation not permitted"
MODULE = r"(?P<module>nvidia(?:[_-](?:current|uvm|current-uvm|\d{3}\w{0,20}))?|amdgpu)"
"""Without which nothing computes; nvidia_peermem and nvidia_fs are for some networks and file systems."""

SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        "driver-module-unsigned",
        pattern=rf"modprobe: ERROR: could not insert '{MODULE}': (?P<reason>{UNTRUSTED})",
        cause="no-gpu-visible",
        variant="signature",
        confidence=PROVED,
        seen="the kernel does not load {module}, which nobody signed whom it trusts ({reason}): Secure Boot is on",
        source="kmod tools/modprobe.c; Linux kernel/module/signing.c (EKEYREJECTED, ENOKEY), security/lockdown",
        sample="modprobe: ERROR: could not insert 'nvidia': Key was rejected by service",
        counter="modprobe: ERROR: could not insert 'nvidia': No such device",
    ),
    Symptom(
        "driver-module-not-loaded",
        pattern=(
            rf"modprobe: ERROR: could not insert '{MODULE}': (?P<reason>(?!{UNTRUSTED})[^\n]{{3,80}})",
            rf"modprobe: FATAL: Module {MODULE} not found in directory (?P<folder>/\S{{1,200}})",
        ),
        cause="no-gpu-visible",
        variant="module",
        confidence=PROVED,
        seen=(
            "there is no driver module {module} for the kernel that runs ({folder})",
            "the kernel does not load the driver module {module}: {reason}",
        ),
        source="kmod tools/modprobe.c",
        sample=(
            "modprobe: ERROR: could not insert 'nvidia': No such device",
            "modprobe: FATAL: Module nvidia not found in directory /lib/modules/6.8.0-90-generic",
        ),
        counter="modprobe: FATAL: Module ib_umad not found in directory /lib/modules/6.8.0-90-generic",
    ),
    Symptom(
        "driver-wants-open-modules",
        needle="requires use of the NVIDIA open kernel modules",
        cause="driver-mismatch",
        variant="open modules",
        confidence=PROVED,
        seen="a GPU here works with NVIDIA's open kernel modules only, and the closed ones are loaded",
        source="NVIDIA's driver (osinit.c)",
        sample="[    5.559] NVRM: installed in this system requires use of the NVIDIA open kernel modules.",
        counter="[    5.559] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.105.08",
    ),
    Symptom(
        "driver-without-this-gpu",
        needle=("installed in this system is not supported", "is not supported by open nvidia.ko"),
        cause="driver-mismatch",
        variant="release",
        confidence=PROVED,
        seen="NVIDIA's driver of this release does not serve a GPU here, which is too old or too new for it",
        source="NVIDIA's driver (nv-pci.c)",
        sample=(
            "[    9.104] NVRM: installed in this system is not supported by the",
            "[    9.104] NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:1b80) installed in this system is not "
            "supported by open nvidia.ko because it does not include the required GPU System Processor (GSP).",
        ),
        counter="[    9.104] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  390.157",
    ),
    Symptom(
        "gpu-memory-not-mapped",
        needle="This PCI I/O region assigned to your NVIDIA device is invalid",
        cause="no-gpu-visible",
        variant="bar",
        confidence=PROVED,
        seen="the firmware or the hypervisor gave a GPU no room for its memory (BAR), and the driver leaves it alone",
        source="NVIDIA's driver (nv-pci.c)",
        sample="[   12.4] NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:",
        counter="[   12.4] NVRM: GPU at PCI:0000:0a:00: GPU-0a0b0c0d-5555-6666-7777-888888888888",
    ),
    Symptom(
        "no-gpu-initialised",
        pattern=r"NVRM: None of the NVIDIA (?:graphics adapters|devices) were initialized",
        cause="no-gpu-visible",
        variant="module",
        seen="NVIDIA's driver could initialise no GPU",
        source="NVIDIA's driver (nv.c)",
        sample="[   12.6] NVRM: None of the NVIDIA devices were initialized.",
        counter="[   12.6] NVRM: The NVIDIA probe routine failed for 1 device(s).",
    ),
    Symptom(
        "amd-gpu-lost",
        pattern=rf"amdgpu {ADDRESS}: (?:amdgpu: )?(?:device lost from bus!|"
        r"GPU reset\(\d{1,9}\) failed|GPU Recovery Failed: -?\d{1,5})",
        needle=("device lost from bus", ") failed", "GPU Recovery Failed"),
        cause="xid-gpu-lost",
        variant="reboot",
        confidence=PROVED,
        seen="the AMD GPU at {address} is lost, or no reset brought it back",
        source="Linux amdgpu_device.c",
        sample=(
            "[  919.159] amdgpu 0000:75:00.0: amdgpu: device lost from bus!",
            "[  919.159] amdgpu 0000:75:00.0: amdgpu: GPU reset(4) failed",
        ),
        counter="[  919.159] amdgpu 0000:75:00.0: amdgpu: GPU reset(4) succeeded!",
    ),
    Symptom(
        "amd-gpu-uncorrectable",
        pattern=rf"amdgpu {ADDRESS}: (?:amdgpu: )?(?:\{{\d{{1,9}}\}} ?)?"
        r"[Uu]ncorrectable hardware error\(ERREVENT_ATHUB_INTERRUPT\) detected",
        cause="xid-gpu-lost",
        variant="reboot",
        confidence=PROVED,
        seen="the AMD GPU at {address} met a hardware error that it could not correct",
        source="Linux amdgpu_ras.c",
        sample="[76914.152] amdgpu 0000:dd:00.0: {1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!",
        counter="[76914.152] amdgpu 0000:dd:00.0: amdgpu: MEM ECC is active.",
    ),
    Symptom(
        "fabric-manager-unit-failed",
        pattern=r"\u00d7 nvidia-fabricmanager\.service",
        needle="nvidia-fabricmanager.service",
        cause="fabric-manager",
        confidence=PROVED,
        seen="Fabric Manager has failed on this node, and does not run",
        source="systemd systemctl-show.c (the sign of a unit that failed)",
        sample="\u00d7 nvidia-fabricmanager.service - NVIDIA fabric manager service",
        counter="\u25cf nvidia-fabricmanager.service - NVIDIA fabric manager service",
    ),
)
