"""The NVIDIA driver is loaded and serves no GPU: nvidia-smi says "No devices were found".

Why it matters: no CUDA program finds a device. The driver could not initialise a GPU (the kernel log says why: "RmInit
failed", "NVRM: GPU ... is not supported"), or the GPU fell off the bus before the driver was loaded.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.explaining import GPU_LOST
from gpudoctor.knowledge.gpus.nvidia_hardware import gpus_on_pci, has_gpu, perhaps_in_container
from gpudoctor.knowledge.gpus.nvml_errors import SUCCESS


@check(
    "driver-serves-no-gpu",
    title="The driver serves a GPU",
    follows=GPU_LOST,
)
def driver_serves_no_gpu(machine: Snapshot) -> Problems:
    gpus, code = machine.nvidia.gpus, machine.nvidia.init_code
    if gpus.value or code.value != SUCCESS:
        return
    if machine.accelerators.pci.is_read and gpus_on_pci(machine):
        return  # gpu-count-below-pci names them
    if "SLURM_JOB_ID" in machine.environment.value_or({}) or not has_gpu(machine):
        return  # a job without GPUs: the device cgroup keeps them from it
    inside = perhaps_in_container(machine)
    yield Problem(
        severity="error",
        summary="The NVIDIA driver is loaded and serves no GPU (nvidia-smi: No devices were found)",
        meaning="torch.cuda.is_available() is False: training runs on the CPU or stops.",
        evidence=(code, gpus),
        fix=Fix.of(
            "On the host, read why the driver could not initialise a GPU, and whether the bus shows one."
            + ("" if inside is False else " In a container or a job: see that it was given GPUs."),
            command("sudo dmesg -T | grep -iE 'nvrm|xid' | tail -n 20"),
            command("lspci -nn | grep -i nvidia"),
        ),
    )
