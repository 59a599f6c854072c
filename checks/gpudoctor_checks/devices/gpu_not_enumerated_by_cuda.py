"""nvidia-smi lists a GPU that the CUDA driver does not enumerate.

Why it matters: the card looks fine in every monitor, but no CUDA program can use it, with or without
CUDA_VISIBLE_DEVICES. An MPS daemon leaves out GPUs older than Volta and those hidden from it when it was started;
a container or cgroup can withhold the device file; a broken GPU is left out as well.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.explaining import GPU_LOST, GPUS_HIDDEN
from gpudoctor.knowledge.gpus.gpu_labels import label
from gpudoctor.knowledge.visible.agreement import enumerated, error_of
from gpudoctor.knowledge.visible.now import driver_list
from gpudoctor.knowledge.visible.order import owner
from gpudoctor.snapshot import NotRead, missing


@check(
    "gpu-not-enumerated-by-cuda",
    title="CUDA enumerates every GPU that nvidia-smi lists",
    short="not given to CUDA",
    follows=(*GPU_LOST, "gpu-unreadable", "gpu-device-node-missing", *GPUS_HIDDEN),
)
def gpu_not_enumerated_by_cuda(machine: Snapshot) -> Problems:
    gpus, answer = machine.nvidia.gpus, machine.cuda.all
    devices = enumerated(answer.value)
    if devices is None:
        raise NotRead(missing(answer.source, error_of(answer.value)))
    if any(gpu.mig_mode.value_or(False) for gpu in gpus.value):
        return  # MIG hides GPUs by design: mig-hides-other-gpus and mig-mode-without-instances speak of that
    owners = [owner(device, gpus.value) for device in devices]
    for gpu in gpus.value:
        # gpu-lost and gpu-unreadable speak of those that did not answer NVML either.
        if gpu not in owners and gpu.pci_bus_id.missing_kind not in ("lost", "denied"):
            yield Problem(
                severity="error",
                summary=f"{label(gpu)} is in nvidia-smi, but not among the {len(devices)} devices of the CUDA driver",
                meaning="No CUDA program can use this GPU, whatever CUDA_VISIBLE_DEVICES says; the numbers of the "
                "others have moved up.",
                fix=Fix.of(
                    "See whether its device file is there and readable, whether an MPS daemon runs, and what the "
                    "kernel log says of it.",
                    command("ls -l /dev/nvidia{:number}", gpu.minor_number.value_or(gpu.index)),
                    command("pgrep -a nvidia-cuda-mps"),
                    command("sudo dmesg -T | grep -i nvrm"),
                ),
                evidence=(driver_list(answer), gpu.uuid),
                gpus=(gpu.index,),
            )
