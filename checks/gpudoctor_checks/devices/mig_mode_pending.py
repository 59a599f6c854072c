"""A change of MIG mode waits for a reset of the GPU.

Why it matters: until then the GPU is as it was. A job that was planned for the new mode finds a whole GPU in place of
instances, or instances in place of a whole GPU, and the next reboot changes the machine under whoever runs then.
"""

from gpudoctor.check import Fix, Gpu, Problem, Problems, Snapshot, command, gpu_check
from gpudoctor.knowledge.gpus.gpu_labels import label, reset


@gpu_check("mig-mode-pending", title="No change of MIG mode is pending", short="MIG mode pending")
def mig_mode_pending(gpu: Gpu, machine: Snapshot) -> Problems:
    current, pending = gpu.mig_mode.value, gpu.mig_mode_pending.value
    if current == pending:
        return
    have, next_mode = ("on", "off") if current else ("off", "on")
    yield Problem(
        severity="warning",
        summary=f"{label(gpu)} has MIG mode {have}; {next_mode} is pending",
        meaning=f"MIG mode turns {next_mode} with the next reset of the GPU or reboot, whoever uses it then.",
        fix=Fix(
            "Reset the GPU while nothing runs on it.",
            commands=(reset(gpu),),
            otherwise=(
                Fix(
                    "Take the change back.",
                    (command("sudo nvidia-smi -i {:number} -mig {:number}", gpu.index, int(current)),),
                ),
            ),
        ),
        evidence=(gpu.mig_mode, gpu.mig_mode_pending),
    )
