"""CUDA cannot be initialised.

Why it matters: no CUDA program works, even where nvidia-smi looks fine: nvidia-smi asks the driver's management
interface, CUDA initialises every GPU. The error's number tells the cause.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.explaining import CUDA_CANNOT_START
from gpudoctor.knowledge.gpus import cuda_errors, nvml_errors
from gpudoctor.knowledge.gpus.nvidia_hardware import has_gpu

DRIVER_FAULTS = (
    nvml_errors.NO_PERMISSION,
    nvml_errors.DRIVER_NOT_LOADED,
    nvml_errors.LIBRARY_NOT_FOUND,
    nvml_errors.VERSION_MISMATCH,
)
"""Each has a check of its own, whose fix is the better one."""


@check(
    "cuda-init-failed",
    title="CUDA can be initialised",
    follows=CUDA_CANNOT_START,
)
def cuda_init_failed(machine: Snapshot) -> Problems:
    answer = machine.cuda.visible
    if answer.value.error == 0:
        return
    if answer.value.error in cuda_errors.HIDDEN and "CUDA_VISIBLE_DEVICES" in machine.environment.value:
        # The variable may hide every GPU, which the checks of devices judge. What CUDA says without it counts here.
        answer = machine.cuda.all
        if answer.value.error == 0:
            return
    gpus = machine.nvidia.gpus
    if not gpus.is_read and not has_gpu(machine):
        return  # libcuda without a GPU is no fault: one image serves machines with and without
    error = cuda_errors.explain(answer.value.error, answer.value.error_name)
    cause, fix = f"Cause: {error.cause}.", Fix(error.fix, commands=error.commands)
    code = machine.nvidia.init_code
    if code.value_or(nvml_errors.SUCCESS) in DRIVER_FAULTS:
        cause = (
            f"It follows from the driver's fault: {nvml_errors.explain(code.value).cause} (NVML error {code.value})."
        )
        fix = Fix("Repair the driver first, as its own problem says; CUDA follows.", commands=(command("nvidia-smi"),))
    counted = f", though NVML counts {len(gpus.value)} GPUs" if gpus.is_read and gpus.value else ""
    yield Problem(
        severity="error",
        summary=f"cuInit fails with error {error.code} ({answer.value.error_name or error.name}){counted}",
        meaning=f"torch.cuda.is_available() is False. {cause}",
        evidence=(answer, *((code,) if code.is_read else ())),
        fix=fix,
    )
