"""A GPU failed."""

from gpudoctor.cause import Cause
from gpudoctor.check import Fix
from gpudoctor.command import command

CAUSE = Cause(
    id="xid-gpu-lost",
    title="a GPU failed",
    stages=("communicator", "first collective", "training"),
    blame="node",
    hangs_by="gone",
    while_running="always",
    meaning=(
        "The driver reported an error of the GPU or lost it. Kernels on it never end, and all ranks that talk "
        "to it wait."
    ),
    fix=Fix(
        "Reset the GPU or reboot the node, and take it out of service when the fault comes again.",
        (command("gpudoctor check gpu driver"), command("sudo dmesg --ctime | grep -iE 'Xid|AER'")),
    ),
    confirm=("The kernel's log holds an Xid of that GPU from this time; nvidia-smi fails or does not list it."),
    source=("NVIDIA Xid catalog"),
)
