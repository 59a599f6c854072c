"""An AMD GPU is here, and the training interpreter's torch was not built for it.

Why it matters: the torch that pip installs by default is NVIDIA's build. It does not see AMD GPUs:
`torch.cuda.is_available()` is False, and training runs on the CPU. The ROCm build comes from an index of its own.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.accelerator_kinds import is_amd_graphics, is_amd_instinct, is_nvidia_gpu
from gpudoctor.knowledge.presence import if_present
from gpudoctor.knowledge.pytorch.torch_wheels import interpreter
from gpudoctor.knowledge.wording import listed

# The ROCm that torch 2.12 and 2.13 are released for (pytorch/test-infra, generate_binary_build_matrix.py).
INDEX = "https://download.pytorch.org/whl/rocm7.2"


@check("amd-gpu-without-rocm-torch", title="torch is built for the AMD GPUs of this machine")
def amd_gpu_without_rocm_torch(machine: Snapshot) -> Problems:
    pci, files = machine.accelerators.pci, machine.training.torch_files
    instinct = [device for device in pci.value if is_amd_instinct(device)]
    graphics = [device for device in pci.value if is_amd_graphics(device) and device.driver == "amdgpu"]
    # Beside an NVIDIA GPU, an AMD one is the CPU's own graphics or was left aside on purpose.
    if not instinct and (not graphics or any(is_nvidia_gpu(device) for device in pci.value)):
        return
    torch = if_present(files)
    if torch is not None and torch.hip:
        return
    devices = instinct or graphics
    build = f"torch {torch.version} is" if torch else "no torch is installed, let alone one"
    yield Problem(
        # A Radeon may be the graphics of a laptop's CPU, which ROCm need not support.
        severity="error" if instinct else "info",
        summary=f"AMD {'Instinct' if instinct else 'GPU'} at {listed((device.bus_id for device in devices), 3)}, and "
        f"{build} {'not ' if torch else ''}built for ROCm",
        meaning="torch.cuda.is_available() is False, and training runs on the CPU."
        + ("" if instinct else " Graphics that are part of the CPU may not be supported by ROCm."),
        evidence=(pci, *((files,) if torch else ())),
        fix=Fix.of(
            "Install the ROCm build into the training interpreter; its ROCm has to fit the installed driver.",
            command(
                "{:python} -m pip install --force-reinstall torch --index-url {:name}",
                interpreter(machine),
                INDEX,
            ),
        ),
    )
