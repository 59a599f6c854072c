"""torch says that CUDA is not available, though the driver sees GPUs and suits torch's build.

Why it matters: the training runs on the CPU or stops at its first CUDA call. NVML (nvidia-smi) and CUDA take different
ways into the driver: device files, the fabric of NVSwitch machines and a second copy of libcuda concern only CUDA.
"""

from gpudoctor.check import Command, Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.explaining import CUDA_CANNOT_START
from gpudoctor.knowledge.gpus.cuda_errors import HIDDEN, explain
from gpudoctor.knowledge.pytorch.cuda_versions import runs
from gpudoctor.knowledge.pytorch.torch_wheels import cuda_of, interpreter


@check(
    "torch-cuda-unavailable",
    title="torch can use CUDA",
    follows=(
        "torch-cpu-only",
        "torch-rocm-on-nvidia",
        *CUDA_CANNOT_START,
        "cuda-init-failed",
        "cuda-driver-unresponsive",
        "cuda-driver-crashed",
    ),
)
def torch_cuda_unavailable(machine: Snapshot) -> Problems:
    torch, gpus = machine.training.torch, machine.nvidia.gpus
    facts = torch.value
    cuda = cuda_of(facts.cuda_version)
    if facts.cuda_available or facts.hip_version or cuda is None or not gpus.value:
        return
    if runs(machine.nvidia.driver_version.value, cuda) is False or hidden(machine):
        return  # those are other checks' findings
    answer = machine.cuda.visible
    python = interpreter(machine)
    text = "Let torch say it in full, and look at the device files."
    lines: tuple[Command, ...] = (command("ls -l /dev/nvidia*"),)
    cause = ""
    if answer.is_read and answer.value.error:
        known = explain(answer.value.error, answer.value.error_name)
        text, lines, cause = known.fix, known.commands, f" cuInit gives {known.name}: {known.cause}."
    said = f': "{facts.init_error}"' if facts.init_error else ""
    yield Problem(
        severity="error",
        summary=f"torch {facts.version} finds no CUDA device; NVML sees {len(gpus.value)}{said}",
        meaning=f"The training runs on the CPU or stops at its first CUDA call.{cause}",
        evidence=(torch, gpus, answer),
        fix=Fix(text, commands=(command("{:python} -c 'import torch; torch.cuda.init()'", python), *lines)),
    )


def hidden(machine: Snapshot) -> bool:
    """Whether CUDA_VISIBLE_DEVICES leaves no GPU, where there would be some without it."""
    visible, every = machine.cuda.visible.value_or(None), machine.cuda.all.value_or(None)
    if visible is None or every is None or visible.error not in (0, *HIDDEN):
        return False
    return bool(every.devices) and not visible.devices
