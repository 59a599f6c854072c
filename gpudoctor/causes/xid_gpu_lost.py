from gpudoctor.cause import Cause, Fix, Judged, command

CAUSE = Cause(
    id="xid-gpu-lost",
    title="a GPU failed",
    stages=("communicator", "first collective", "training"),
    kind="device-lost",
    blame="node",
    restart="elsewhere",
    judged={
        "unknown": Judged("driver", "node", "not decided"),
    },
    hangs_by="gone",
    while_running="always",
    meaning=(
        "The driver reported an error of the GPU or lost it. What runs on it fails or never ends, and all ranks that "
        "talk to it wait."
    ),
    like=("gpu-program-fault",),
    fix=Fix(
        "Reset the GPU or reboot the node, and take it out of service when the fault comes again.",
        (command("gpudoctor check gpu driver"), command("sudo dmesg --ctime | grep -iE 'Xid|AER'")),
    ),
    variants={
        "reset-gpu": "Reset the GPU (nvidia-smi --gpu-reset) or reboot the node.",
        "gsp": Fix(
            "Reset the GPU (nvidia-smi --gpu-reset) or reboot the node. Where it comes again: a newer driver, or, with "
            "the proprietary kernel modules, one without this processor (options nvidia NVreg_EnableGpuFirmware=0 in "
            "/etc/modprobe.d; the open modules need it).",
            (command("sudo dmesg --ctime | grep -E 'Xid|GSP'"), command("cat /proc/driver/nvidia/version")),
        ),
        "reboot": (
            "Reboot the node; look at power, seating and temperature of the GPU, and take the node out of service "
            "when the fault comes again."
        ),
        "check-power": "Look at the power cables of the GPU.",
        "check-nvlink": "Look at NVLink's state and counters; reset the GPUs or reboot, and have the links checked.",
        "links": Fix(
            "The driver lets GPUs on NVLink not read each other's memory, which NCCL takes for faulty hardware: "
            "look at the links, and take the node out of service where one is down; MIG, vGPU and a virtual machine "
            "forbid it too. NCCL_IGNORE_DISABLED_P2P=1 goes around it, slower.",
            (
                command("nvidia-smi nvlink -s"),
                command("nvidia-smi topo -p2p r"),
                command("export NCCL_IGNORE_DISABLED_P2P=1"),
            ),
        ),
        "restart-vm": "Restart the virtual machine.",
        "update-driver": "Install a driver that fits.",
        "restart-job": "Start the job again; take the GPU out of service when the fault comes again.",
        "contact-support": (
            "Save the driver's report (nvidia-bug-report.sh) and show it to the machine's vendor or NVIDIA."
        ),
        "nvswitch": "Restart Fabric Manager and reset all GPUs, or reboot the node.",
        "pcie": Fix(
            "See which device that is (lspci -s {address}: a GPU, a network card, a drive, a switch between them): "
            "look "
            "at its seating, cables and riser, and leave the node out while the error comes again.",
            (command("sudo dmesg --ctime | grep -iE 'AER|PCIe Bus Error'"), command("lspci -tv")),
        ),
        "unknown": Fix(
            "Look at nvidia-smi and dmesg on that node: a GPU that was lost, a driver that was updated. Behind a "
            "sleep of the machine load nvidia_uvm again (sudo modprobe -r nvidia_uvm, then sudo modprobe nvidia_uvm); "
            "where /dev/nvidia-uvm is missing, on the host or in the container, make it (sudo nvidia-modprobe -c 0 "
            "-u) and hand it over.",
            (command("nvidia-smi"), command("ls -l /dev/nvidia*")),
        ),
    },
    confirm=(
        "The kernel's log holds an Xid of that GPU from this time; where the GPU was lost, nvidia-smi fails or does "
        "not list it."
    ),
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
