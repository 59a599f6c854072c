"""A kernel of the program failed on the GPU."""

from gpudoctor.cause import Cause
from gpudoctor.check import Fix
from gpudoctor.command import command

CAUSE = Cause(
    id="gpu-program-fault",
    title="a kernel of the program failed on the GPU",
    stages=("first collective", "training"),
    blame="program",
    hangs_by="gone",
    meaning=(
        "A kernel read or wrote where it may not, or an assertion in it failed. CUDA tells it at a later call, and "
        "the rank can use its GPU no more."
    ),
    like=("xid-gpu-lost",),
    fix=Fix(
        "Start that rank with CUDA_LAUNCH_BLOCKING=1 to see which call, or with compute-sanitizer; where several "
        "programs fail on one GPU, suspect the GPU.",
        (command("sudo dmesg --ctime | grep -i xid"),),
    ),
    confirm="compute-sanitizer names the kernel; the same program fails on another GPU too.",
    foreseen_by=("gpu-xid-application",),
    source="CUDA's error texts (700, 710, 715, 716, 719, 702); NVIDIA Xid catalog",
)
