"""The driver works, but its CUDA library is not there.

Why it matters: nvidia-smi looks fine, and yet torch.cuda.is_available() is False: the management library (NVML) was
installed or mounted without libcuda.so.1.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.gpus.nvidia_hardware import perhaps_in_container
from gpudoctor.knowledge.wording import counted
from gpudoctor.snapshot import require


@check(
    "cuda-library-missing",
    title="The driver's CUDA library is there",
    follows=("nvidia-driver-missing", "nvidia-driver-library-mismatch"),
)
def cuda_library_missing(machine: Snapshot) -> Problems:
    gpus, answer = machine.nvidia.gpus, machine.cuda.visible
    if not gpus.value:
        return
    if answer.missing_kind != "absent":
        require(answer)  # hangs and crashes are judged elsewhere
        return
    driver = machine.nvidia.driver_version
    branch = driver.value.partition(".")[0]
    inside = perhaps_in_container(machine)
    yield Problem(
        severity="error",
        summary=f"libcuda.so.1 was not found, though driver {driver.value} serves {counted(len(gpus.value), 'GPU')}",
        meaning="torch.cuda.is_available() is False, while nvidia-smi works.",
        evidence=(gpus, answer, driver),
        fix=Fix(
            "Start the container with compute among the driver's capabilities (docker: `--gpus all -e "
            "NVIDIA_DRIVER_CAPABILITIES=compute,utility`)."
            if inside
            else f"Install the CUDA library of exactly this driver ({driver.value}); on Ubuntu and Debian the line "
            f"does it.",
            commands=()
            if inside
            else (
                command("sudo apt install {:name}", f"libnvidia-compute-{branch}"),
                command("ldconfig -p | grep libcuda.so"),
            ),
        ),
    )
