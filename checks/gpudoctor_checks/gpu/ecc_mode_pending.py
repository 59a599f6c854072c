"""A changed ECC mode waits for a GPU reset.

Why it matters: somebody switched ECC on or off and the GPU still runs in the old mode. After the next reboot its memory
size, its speed and its protection against bit errors change, in the middle of a series of runs.
"""

from gpudoctor.check import Fix, Gpu, Problem, Problems, Snapshot, command, gpu_check
from gpudoctor.knowledge.gpus.gpu_labels import label, reset


@gpu_check("ecc-mode-pending", title="No change of the ECC mode is pending", short="ECC mode pending")
def ecc_mode_pending(gpu: Gpu, machine: Snapshot) -> Problems:
    now, then = gpu.ecc_mode.value, gpu.ecc_mode_pending.value
    if now != then:
        modes = {True: "on", False: "off"}
        yield Problem(
            severity="warning",
            summary=f"{label(gpu)} has ECC {modes[now]}, and ECC {modes[then]} is pending",
            meaning="The next reset or reboot changes this GPU's memory size and its protection against bit errors.",
            evidence=(gpu.ecc_mode, gpu.ecc_mode_pending),
            fix=Fix(
                f"Reset the GPU while nothing runs on it: that switches ECC {modes[then]}.",
                commands=(reset(gpu),),
                otherwise=(
                    Fix(
                        "Take the change back.",
                        (command("sudo nvidia-smi -i {:number} -e {:number}", gpu.index, int(now)),),
                    ),
                ),
            ),
        )
