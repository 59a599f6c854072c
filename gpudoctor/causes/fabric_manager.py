from gpudoctor.cause import Cause, Fix, command

CAUSE = Cause(
    id="fabric-manager",
    title="Fabric Manager is not running or does not fit the driver",
    stages=("communicator",),
    kind="driver",
    blame="node",
    restart="elsewhere",
    hangs_by="start",
    meaning=(
        "On machines with NVSwitch no CUDA program starts until Fabric Manager has set up the fabric, and NVLS "
        "fails where it was restarted or differs from the driver."
    ),
    fix=Fix(
        "Start Fabric Manager in the driver's version and enable it at boot, where the machine has NVSwitch (it has "
        "nothing to do on others); after a restart beside running GPUs reset them or reboot.",
        (
            command("systemctl status nvidia-fabricmanager"),
            command("sudo systemctl restart nvidia-fabricmanager"),
            command("gpudoctor check driver"),
        ),
    ),
    variants={
        "no-switch": Fix(
            "The driver shows no NVSwitch: where the machine has none (its GPUs are PCIe cards, or joined by bridges), "
            "disable the service, nothing needs it. Of HGX boards since Blackwell, whose switches are managed over "
            "InfiniBand, load ib_umad and install nvlsm beside it.",
            (command("nvidia-smi topo -m"), command("sudo systemctl disable --now nvidia-fabricmanager")),
        ),
        "nvls": Fix(
            "Restart Fabric Manager, in the driver's version, and where it was stopped or restarted beside running "
            "GPUs reset these (nvidia-smi --gpu-reset, with nothing on them) or reboot; NCCL_NVLS_ENABLE=0 does "
            "without until then, with slower reductions inside the node.",
            (
                command("systemctl status nvidia-fabricmanager"),
                command("sudo systemctl restart nvidia-fabricmanager"),
                command("export NCCL_NVLS_ENABLE=0"),
            ),
        ),
        "imex": Fix(
            "Start nvidia-imex on all nodes of the NVLink domain, and hand /dev/nvidia-caps-imex-channels to the "
            "container.",
            (
                command("nvidia-imex-ctl -N"),
                command("ls -l /dev/nvidia-caps-imex-channels"),
                command("export NCCL_MNNVL_ENABLE=0"),
            ),
        ),
    },
    confirm=("nvidia-smi -q shows the fabric's state; it is Completed with status Success when all is well."),
    foreseen_by=("fabric-manager-not-running", "fabric-manager-version-differs", "fabric-not-ready", "nvlink-inactive"),
    source=("NVIDIA Fabric Manager user guide; CUDA error 802; nccl-tests#264"),
)
