"""No GPU, TPU or other accelerator was found.

Why it matters: training runs on the CPU here. That is fine for a test and slow by one or two orders of magnitude for
anything else; where a GPU was expected, it is not on the bus, or this container was not given it.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.accelerator_kinds import (
    is_amd_graphics,
    is_amd_instinct,
    is_intel_arc,
    is_intel_data_center,
    is_nvidia_gpu,
    is_processing_accelerator,
    is_tpu,
)
from gpudoctor.knowledge.explaining import DRIVER_MISSING, GPU_LOST
from gpudoctor.knowledge.presence import if_present
from gpudoctor.snapshot import PciDevice

INTEL_NPU_DRIVER = "intel_vpu"  # class 12 as well, and nothing that torch trains on


@check(
    "accelerator-missing",
    title="This machine has an accelerator",
    follows=(*DRIVER_MISSING, *GPU_LOST),
)
def accelerator_missing(machine: Snapshot) -> Problems:
    pci, nodes = machine.accelerators.pci, machine.accelerators.device_nodes
    if any(_trains(device) for device in pci.value):
        return
    # WSL2 and some containers reach the GPU without a PCI device: then NVML has to say.
    reachable = any(node.path.startswith(("/dev/nvidia", "/dev/dxg")) for node in if_present(nodes) or ())
    gpus = machine.nvidia.gpus.value if reachable else if_present(machine.nvidia.gpus)
    if gpus:
        return
    cuda = machine.cuda.all.value_or(None)
    if cuda is not None and cuda.devices:
        return  # a Jetson: the GPU is part of the chip, on no bus, and NVML may be missing
    in_container = machine.host.container.value_or("none") != "none"
    yield Problem(
        severity="info",
        summary="No GPU, TPU or other accelerator on this machine: training would run on the CPU",
        meaning="Everything works, one or two orders of magnitude slower than on a GPU.",
        evidence=(pci,),
        fix=Fix(
            "Where a GPU was expected: "
            + (
                "start the container with `--gpus all`, and look on the host whether the bus shows it."
                if in_container
                else "see whether the bus shows it; when not, it is unpowered, not seated, or not passed to this VM."
            ),
            commands=(command("lspci -nn | grep -Ei 'vga|3d|display|processing'"),),
        ),
    )


def _trains(device: PciDevice) -> bool:
    """Whether some build of PyTorch trains on it; AMD's integrated GPUs count, for ROCm supports several."""
    kinds = (is_nvidia_gpu, is_amd_graphics, is_amd_instinct, is_intel_arc, is_intel_data_center, is_tpu)
    if any(kind(device) for kind in kinds):
        return True
    return is_processing_accelerator(device) and device.driver != INTEL_NPU_DRIVER
