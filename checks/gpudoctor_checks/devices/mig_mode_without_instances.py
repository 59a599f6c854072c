"""A GPU is in MIG mode, but has no MIG device to run on.

Why it matters: in MIG mode a GPU computes through its instances alone. Without one, nvidia-smi shows the card and CUDA
does not; MIG mode survives a reboot, the instances do not.
"""

from gpudoctor.check import Fix, Gpu, Problem, Problems, Snapshot, command, gpu_check
from gpudoctor.knowledge.gpus.gpu_labels import label


@gpu_check("mig-mode-without-instances", title="GPUs in MIG mode have MIG devices", short="MIG without instances")
def mig_mode_without_instances(gpu: Gpu, machine: Snapshot) -> Problems:
    if not gpu.mig_mode.value or gpu.mig_devices.value:
        return
    yield Problem(
        severity="error",
        summary=f"{label(gpu)} is in MIG mode with 0 MIG devices; CUDA needs at least one",
        meaning="No CUDA program can use this GPU.",
        fix=Fix.of(
            "Leave MIG mode to have the whole GPU (it must be idle), or list the profiles and create instances.",
            command("sudo nvidia-smi -i {:number} -mig 0", gpu.index),
            command("sudo nvidia-smi mig -i {:number} -lgip", gpu.index),
        ),
        evidence=(gpu.mig_mode, gpu.mig_devices),
    )
