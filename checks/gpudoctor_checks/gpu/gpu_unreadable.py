"""NVML counts a GPU that it cannot open.

Why it matters: nothing is known of this GPU, and CUDA will most likely not offer it. In a container or a SLURM job that
was given some of the machine's GPUs this is how the others look.
"""

from gpudoctor.check import Fix, Gpu, Problem, Problems, Snapshot, command, gpu_check
from gpudoctor.knowledge.gpus.nvidia_hardware import in_container, went_wrong, withheld_nodes
from gpudoctor.snapshot import require


@gpu_check("gpu-unreadable", title="Every GPU that the driver counts can be opened")
def gpu_unreadable(gpu: Gpu, machine: Snapshot) -> Problems:
    identity = (gpu.uuid, gpu.pci_bus_id, gpu.name)
    if any(reading.is_read for reading in identity):
        return
    denied = gpu.uuid.missing_kind == "denied"
    if not denied and not went_wrong(machine, gpu.uuid):
        require(gpu.uuid)  # lost and unresponsive GPUs are the business of gpu-lost and nvml-unresponsive
    given_a_part = denied and (
        in_container(machine)
        or "SLURM_JOB_ID" in machine.environment.value
        or (machine.accelerators.device_nodes.is_read and bool(withheld_nodes(machine)))
    )
    yield Problem(
        severity="info" if given_a_part else "warning" if denied else "error",
        summary=f"GPU {gpu.index} cannot be opened: {gpu.uuid.reason}",
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
