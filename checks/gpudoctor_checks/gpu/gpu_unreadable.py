"""NVML counts a GPU that it cannot open.

Why it matters: nothing is known of this GPU, and CUDA will most likely not offer it. In a container or a SLURM job that
was given some of the machine's GPUs this is how the others look.
"""

from gpudoctor.check import Fix, Gpu, Problem, Problems, Snapshot, command, gpu_check
from gpudoctor.knowledge.explaining import GPU_LOST
from gpudoctor.knowledge.gpus.gpu_labels import label
from gpudoctor.knowledge.gpus.nvidia_hardware import perhaps_in_container, went_wrong, withheld_nodes
from gpudoctor.knowledge.wording import listed
from gpudoctor.snapshot import require

VITAL = {
    "memory_total_bytes": "memory",
    "memory_used_bytes": "memory",
    "temperature_celsius": "temperature",
    "power_draw_watts": "power",
    "utilization_gpu_percent": "utilisation",
    "ecc_volatile": "ECC errors",
    "fan_percent": "fan",
    "pcie_width": "PCIe link",
}
"""What every GPU of a server tells for as long as it is well."""
UNTOLD = ("Unknown Error", "ERR!", "NVML error 999")
"""The driver's words for a GPU that it asked in vain."""
NOT_OPENED = "nvidia-smi could not open GPU "
"""What gpudoctor.read.nvidia_smi says of a GPU of which nvidia-smi names no more than the address."""


@gpu_check(
    "gpu-unreadable",
    title="Every GPU that the driver counts can be opened",
    short="unreadable",
    follows=(*GPU_LOST, "nvidia-devices-unreadable"),
)
def gpu_unreadable(gpu: Gpu, machine: Snapshot) -> Problems:
    refused = gpu.pci_bus_id.is_read and NOT_OPENED in gpu.uuid.reason
    if any(reading.is_read for reading in (gpu.uuid, gpu.pci_bus_id, gpu.name)) and not refused:
        yield from _in_part(gpu, machine)
        return
    denied = gpu.uuid.missing_kind == "denied"
    why = f"nvidia-smi says {gpu.uuid.reason.partition(': ')[2]}" if refused else gpu.uuid.reason
    is_one_of_several = any(each.name.is_read for each in machine.nvidia.gpus.value)
    if not denied and not went_wrong(gpu.uuid):
        require(gpu.uuid)  # lost and unresponsive GPUs are the business of gpu-lost and nvml-unresponsive
    given_a_part = denied and (
        perhaps_in_container(machine)
        or "SLURM_JOB_ID" in machine.environment.value_or({})
        or (machine.accelerators.device_nodes.is_read and bool(withheld_nodes(machine)))
    )
    yield Problem(
        severity="info" if given_a_part else "warning" if denied and is_one_of_several else "error",
        summary=f"{label(gpu)} cannot be opened: {why}",
        meaning="This container or job was given other GPUs of the machine; training uses those."
        if given_a_part
        else "Nothing is known of this GPU, and training cannot use it.",
        evidence=(machine.nvidia.gpus, gpu.uuid),
        fix=Fix(
            "When this GPU was meant to be usable here, ask for it in the container's or the job's options."
            if given_a_part
            else "Give this user access to the device files of the GPU."
            if denied
            else "Read what the kernel driver says of the GPU; a reset or a reboot is the usual cure.",
            commands=(command("ls -l /dev/nvidia*"),)
            if denied
            else (command("sudo dmesg -T | grep -iE 'nvrm|xid'"), command("nvidia-smi -L")),
        ),
    )


def _in_part(gpu: Gpu, machine: Snapshot) -> Problems:
    """A GPU that has its name and no longer tells how it is."""
    lost = {
        name: getattr(gpu, name)
        for name in VITAL
        if went_wrong(getattr(gpu, name)) and any(word in getattr(gpu, name).reason for word in UNTOLD)
    }
    if not lost:
        return
    # One sensor that no GPU of its kind has is a matter of the driver; of one GPU among others it is this GPU's.
    others = [each for each in machine.nvidia.gpus.value if each.index != gpu.index]
    is_alone = any(getattr(other, name).is_read for other in others for name in lost)
    what = list(dict.fromkeys(VITAL[name] for name in lost))
    first = next(iter(lost.values()))
    yield Problem(
        severity="error" if is_alone or len(what) > 1 or "memory" in what else "warning",
        summary=f"{label(gpu)} does not tell its {listed(what)}: {first.reason}",
        meaning="The driver asks this GPU in vain: work on it fails or hangs, or soon will.",
        evidence=tuple(lost.values())[:3],
        fix=Fix.of(
            "Read what the kernel driver says of the GPU; end what uses it and reset it, or reboot. One that does it "
            "again is to be replaced.",
            command("sudo dmesg -T | grep -iE 'nvrm|xid' | tail -n 20"),
            command("nvidia-smi -q -i {:number}", gpu.index),
        ),
    )
