"""A rank sees no GPU."""

from gpudoctor.cause import Cause
from gpudoctor.check import Fix
from gpudoctor.command import command

CAUSE = Cause(
    id="no-gpu-visible",
    title="a rank sees no GPU",
    stages=("rendezvous", "communicator"),
    blame="environment",
    hangs_by="start",
    meaning=(
        "CUDA finds no device: CUDA_VISIBLE_DEVICES is empty or wrong, the container has no GPU, or the driver does "
        "not work on that node."
    ),
    like=("driver-mismatch", "xid-gpu-lost"),
    fix=Fix(
        "Look at CUDA_VISIBLE_DEVICES of the rank, at the container's GPU options, and at nvidia-smi on that node.",
        (command("gpudoctor check gpu devices driver"),),
    ),
    confirm="In the rank's own environment torch.cuda.device_count() is 0.",
    foreseen_by=(
        "cuda-visible-devices-empty",
        "cuda-visible-devices-entry-invalid",
        "nvidia-visible-devices-void",
        "gpu-device-node-missing",
        "nvidia-driver-missing",
        "nvidia-driver-not-loaded",
        "cuda-init-failed",
        "torch-cuda-unavailable",
    ),
    source="CUDA's error texts (100)",
)
