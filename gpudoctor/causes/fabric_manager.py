"""Fabric Manager is not running or does not fit the driver."""

from gpudoctor.cause import Cause
from gpudoctor.check import Fix
from gpudoctor.command import command

CAUSE = Cause(
    id="fabric-manager",
    title="Fabric Manager is not running or does not fit the driver",
    stages=("communicator",),
    blame="node",
    hangs_by="start",
    meaning=(
        "On machines with NVSwitch no CUDA program starts until Fabric Manager has set up the fabric, and NVLS "
        "fails where it was restarted or differs from the driver."
    ),
    fix=Fix(
        "Start Fabric Manager in the driver's version and enable it at boot; after a restart beside running GPUs "
        "reset them or reboot.",
        (
            command("systemctl status nvidia-fabricmanager"),
            command("sudo systemctl restart nvidia-fabricmanager"),
            command("gpudoctor check driver"),
        ),
    ),
    confirm=("nvidia-smi -q shows the fabric's state; it is Completed with status Success when all is well."),
    source=("NVIDIA Fabric Manager user guide; CUDA error 802; nccl-tests#264"),
)
