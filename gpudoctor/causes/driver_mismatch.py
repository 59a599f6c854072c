"""Torch, the driver and the GPU do not fit together."""

from gpudoctor.cause import Cause
from gpudoctor.check import Fix
from gpudoctor.command import command

CAUSE = Cause(
    id="driver-mismatch",
    title="torch, the driver and the GPU do not fit together",
    stages=("rendezvous", "communicator", "first collective"),
    blame="environment",
    hangs_by="start",
    meaning=(
        "The driver does not serve the CUDA that torch was built for, torch has no kernels for this GPU, or the "
        "driver's libraries are of another version than the driver in the kernel."
    ),
    like=("version-mismatch",),
    fix=Fix(
        "Install a torch that was built for this driver and GPU, or update the driver.",
        (command("gpudoctor check driver pytorch"),),
    ),
    variants={
        "reload": Fix("Reboot the node, or reload the driver, after it was updated."),
    },
    confirm="gpudoctor check driver pytorch names the versions that do not fit.",
    foreseen_by=(
        "driver-too-old-for-torch",
        "nvidia-driver-library-mismatch",
        "torch-without-gpu-kernels",
        "torch-rocm-on-nvidia",
    ),
    source="CUDA's error texts (35, 209, 803); NVML_ERROR_LIB_RM_VERSION_MISMATCH",
)
