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
    like=("gpu-program-fault",),
    fix=Fix(
        "Reset the GPU or reboot the node, and take it out of service when the fault comes again.",
        (command("gpudoctor check gpu driver"), command("sudo dmesg --ctime | grep -iE 'Xid|AER'")),
    ),
    variants={
        "reset-gpu": Fix("Reset the GPU (nvidia-smi --gpu-reset) or reboot the node."),
        "reboot": Fix(
            "Reboot the node; look at power, seating and temperature of the GPU, and take the node out of service "
            "when the fault comes again."
        ),
        "check-power": Fix("Look at the power cables of the GPU."),
        "check-nvlink": Fix("Look at the NVLink state and counters; reset the GPUs, and have the links looked at."),
        "restart-vm": Fix("Restart the virtual machine."),
        "update-driver": Fix("Install a driver that fits."),
        "restart-job": Fix("Start the job again; take the GPU out of service when the fault comes again."),
        "nvswitch": Fix("Restart Fabric Manager and reset all GPUs, or reboot the node."),
        "pcie": Fix(
            "See which device it is (lspci -s); look at its seating and its riser, and take the node out of service."
        ),
        "unknown": Fix(
            "Look at nvidia-smi and dmesg on that node: a GPU that was lost, a driver that was updated, or devices "
            "that the container does not have."
        ),
    },
    confirm=("The kernel's log holds an Xid of that GPU from this time; nvidia-smi fails or does not list it."),
    foreseen_by=(
        "gpu-xid-hardware",
        "gpu-lost",
        "nvswitch-sxid",
        "row-remap-failed",
        "ecc-uncorrected-errors",
        "gpu-recovery-action-needed",
    ),
    source=("NVIDIA Xid catalog"),
)
