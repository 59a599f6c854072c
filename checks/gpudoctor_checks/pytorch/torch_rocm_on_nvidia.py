"""torch is built for AMD GPUs (ROCm), on a machine with NVIDIA GPUs.

Why it matters: a ROCm build calls its devices "cuda" too, but cannot use an NVIDIA GPU: `torch.cuda.is_available()` is
False, and nothing in the message says that the build is the wrong one.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check
from gpudoctor.knowledge.pytorch.torch_wheels import advice

AMD = "0x1002"
ACCELERATOR_CLASSES = ("0x03", "0x12")  # PCI base classes: display controller, processing accelerator


@check("torch-rocm-on-nvidia", title="torch is built for the maker of the GPUs")
def torch_rocm_on_nvidia(machine: Snapshot) -> Problems:
    files, gpus = machine.training.torch_files, machine.nvidia.gpus
    build = files.value
    if not build.hip or not gpus.value:
        return
    devices = machine.accelerators.pci.value
    if any(device.vendor == AMD and device.device_class.startswith(ACCELERATOR_CLASSES) for device in devices):
        return  # both makers: the ROCm build may well be meant
    text, lines = advice(machine)
    yield Problem(
        severity="error",
        summary=f"torch {build.version} is built for ROCm {build.hip}; this machine has {len(gpus.value)} NVIDIA GPUs",
        meaning="torch finds no GPU here, and the training runs on the CPU or stops.",
        evidence=(files, gpus),
        fix=Fix(text, commands=lines),
    )
