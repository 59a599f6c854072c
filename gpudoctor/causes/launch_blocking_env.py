"""CUDA_LAUNCH_BLOCKING is set."""

from gpudoctor.cause import Cause
from gpudoctor.check import Fix
from gpudoctor.command import command

CAUSE = Cause(
    id="launch-blocking-env",
    title="CUDA_LAUNCH_BLOCKING is set",
    stages=("first collective", "training"),
    blame="environment",
    hangs_by="start",
    meaning=(
        "Every kernel launch then waits for its end. A collective waits for kernels that the same thread would "
        "have to launch later, and never ends."
    ),
    fix=Fix("Take it out.", (command("unset CUDA_LAUNCH_BLOCKING"),)),
    confirm=("Without the variable the same job runs."),
    foreseen_by=("cuda-launch-blocking",),
    source=("CUDA programming guide; NCCL documentation (group calls)"),
)
