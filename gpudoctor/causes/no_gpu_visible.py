from gpudoctor.cause import Cause, Fix, Judged, command
from gpudoctor.remedies import fixes_of

CAUSE = Cause(
    id="no-gpu-visible",
    title="a rank sees no GPU",
    stages=("rendezvous", "communicator"),
    kind="no-device",
    blame="environment",
    restart="after a fix",
    judged={
        "no-nvml": Judged("driver", "environment", "after a fix"),
        "cgroup": Judged("device-lost", "environment", "as it is"),
        "module": Judged("driver", "node", "elsewhere"),
        **dict.fromkeys(
            ("driver", "host-file", "host-reload", "slow-driver", "nvml"), Judged("driver", "node", "elsewhere")
        ),
        "slow-helper": Judged("driver", "node", "as it is"),
        "read-only": Judged("config", "environment", "after a fix"),
        "no-room": Judged("disk-full", "node", "after a fix"),
        "denied": Judged("permission", "node", "after a fix"),
        "no-cgroups": Judged("driver", "environment", "after a fix"),
        "toolkit": Judged("driver", "environment", "after a fix"),
        "cdi": Judged("config", "environment", "after a fix"),
        "mps": Judged("driver", "environment", "after a fix"),
        "in the image": Judged("image", "environment", "after a fix"),
        "ldconfig": Judged("driver", "environment", "after a fix"),
        "cgroup version": Judged("driver", "environment", "after a fix"),
        "runtime": Judged("driver", "environment", "after a fix"),
        "signature": Judged("driver", "node", "after a fix"),
        "bar": Judged("driver", "node", "elsewhere"),
    },
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
    variants={
        **fixes_of("no-device"),
        "toolkit": Fix(
            "Install nvidia-container-toolkit on the host, from NVIDIA's own package repository (nvidia.github.io/"
            "libnvidia-container) unless the distribution has it, and make it known to the container runtime.",
            (
                command("sudo apt-get install --yes nvidia-container-toolkit"),
                command("sudo nvidia-ctk runtime configure --runtime=docker"),
                command("sudo systemctl restart docker"),
            ),
        ),
        "cdi": Fix(
            "Write the CDI specification of this machine's GPUs, again after each change of the driver.",
            (command("sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"), command("nvidia-ctk cdi list")),
        ),
        "refused list": Fix(
            "Name each GPU once in CUDA_VISIBLE_DEVICES (a launcher may have added to a list that was there), or unset "
            "it; where it is right, look at the MIG devices.",
            (command("gpudoctor devices"), command('echo "$CUDA_VISIBLE_DEVICES"'), command("nvidia-smi -L")),
        ),
        "driver": Fix(
            "Load the driver on the host, where nvidia-smi must work, and then start the container.",
            (command("nvidia-smi"), command("lsmod | grep nvidia")),
        ),
        "no-cgroups": (
            "The container's runtime runs without root and may not write the cgroup's device rules: set no-cgroups = "
            "true in /etc/nvidia-container-runtime/config.toml (rootless docker and podman), or hand the GPUs over by "
            "CDI; on cgroup v2 it wants libnvidia-container 1.8 or newer."
        ),
        "no-such-gpu": Fix(
            "No GPU has that number or UUID on this host: hold what --gpus, NVIDIA_VISIBLE_DEVICES or the scheduler "
            "names against nvidia-smi -L.",
            (command("nvidia-smi -L"),),
        ),
        "slow-driver": Fix(
            "The driver did not answer in time: keep it loaded (nvidia-persistenced, or nvidia-smi -pm 1), and look in "
            "dmesg for a GPU that hangs.",
            (command("sudo nvidia-smi -pm 1"),),
        ),
        "slow-helper": Fix(
            "What nvidia-container-cli starts beside itself did not come up within its ten seconds, as on a node whose "
            "processors or disk are busy (many containers at once): start the container again, fewer at a time, or "
            "have the runtime use CDI, which does without it.",
            (command("sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"),),
        ),
        "read-only": Fix(
            "nvidia-container-cli puts the driver's files into the container's file system, and that cannot be written "
            "there ({reason}): leave its root writable, take the image's own mount at that place away, or hand the "
            "GPUs over by CDI.",
            (),
        ),
        "no-room": Fix("Make room where the container's file system is kept ({reason}).", (command("df -h"),)),
        "denied": Fix(
            "nvidia-container-cli may not open what it needs ({reason}): look for SELinux or AppArmor (ausearch -m "
            "avc, dmesg), at the modes of that path, and whether the runtime runs without root: then set no-cgroups = "
            "true in /etc/nvidia-container-runtime/config.toml, or use CDI.",
            (command("sudo dmesg --ctime | grep -iE 'denied|avc'"),),
        ),
        "nvml": Fix(
            "NVML gives that error on the host already: nvidia-smi and dmesg there say of which GPU (Xid, fallen off "
            "the bus) or why the driver does not work. Other nodes may be well.",
            (command("nvidia-smi"), command("sudo dmesg --ctime | grep -iE 'NVRM|Xid'")),
        ),
        "no-nvml": Fix(
            "A container was given CUDA without the driver's tools: start it with "
            "NVIDIA_DRIVER_CAPABILITIES=compute,utility (an image of NVIDIA's sets it). On a host, install the "
            "driver's libraries in the module's release, or let the loader find their folder (ldconfig, "
            "LD_LIBRARY_PATH).",
            (command("ldconfig -p | grep libnvidia-ml"), command("env | grep NVIDIA_")),
        ),
        "host-reload": Fix(
            "The driver's libraries on the host were updated, and the kernel still runs the module of before: reboot "
            "the host, or end all that uses the GPUs there and load the nvidia modules anew; then start the container.",
            (command("cat /proc/driver/nvidia/version"), command("nvidia-smi")),
        ),
        "host-file": Fix(
            "A file of the driver that is to be handed in is not on the host ({reason}): the driver was updated or is "
            "there in part. Install its libraries and module in one release, reboot, and write the CDI specification "
            "anew where it is used.",
            (command("nvidia-container-cli list"), command("nvidia-smi")),
        ),
        "in the image": (
            "Take the driver's libraries out of the image ({file} and the other libnvidia-*.so.* and libcuda.so.*): it "
            "was committed from a container that had GPUs, or built where NVIDIA's runtime is the default."
        ),
        "ldconfig": Fix(
            "Have the runtime use CDI, which runs no ldconfig in the container; or name the host's real ldconfig in "
            "/etc/nvidia-container-runtime/config.toml (on Debian and Ubuntu @/sbin/ldconfig.real).",
            (
                command("sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"),
                command("sudo nvidia-ctk config --in-place --set nvidia-container-runtime.mode=cdi"),
            ),
        ),
        "cgroup version": Fix(
            "Update nvidia-container-toolkit: libnvidia-container before 1.8 knows no cgroup v2. Where containers run "
            "without root, set no-cgroups = true in /etc/nvidia-container-runtime/config.toml.",
            (command("stat -fc %T /sys/fs/cgroup"), command("nvidia-container-cli --version")),
        ),
        "runtime": Fix(
            "Make NVIDIA's runtime the one of these containers: the default of containerd or docker, or the pod's "
            "runtimeClassName.",
            (
                command("sudo nvidia-ctk runtime configure --runtime=containerd --set-as-default"),
                command("sudo systemctl restart containerd"),
            ),
        ),
        "module": Fix(
            "Load or install the driver for the kernel that runs; after an update of the kernel it must be built anew.",
            (command("lsmod | grep nvidia"), command("sudo dkms status"), command("sudo modprobe nvidia")),
        ),
        "signature": Fix(
            "Enrol the key that signs the module (a password is asked for, and again at the next boot), or turn Secure "
            "Boot off in the firmware.",
            (command("mokutil --sb-state"), command("sudo mokutil --import /var/lib/shim-signed/mok/MOK.der")),
        ),
        "bar": (
            "In the firmware: Above 4G Decoding and Resizable BAR on. In a virtual machine: UEFI (OVMF) in place of "
            "BIOS, and room for 64-bit MMIO; pci=realloc on the kernel's command line helps on some hosts."
        ),
        "mps": Fix(
            "Start the MPS daemon anew for this user, or take CUDA_MPS_PIPE_DIRECTORY out of the environment.",
            (command("env | grep ^CUDA_MPS"), command("nvidia-cuda-mps-control -d")),
        ),
        "cgroup": Fix(
            "Start the container again. To keep it: hand the device nodes over by name (--device=/dev/nvidia0 ...), or "
            "have the runtime use cgroupfs or CDI; a reload of systemd takes devices away that it does not know.",
            (command("ls -l /dev/nvidia*"), command("gpudoctor check devices")),
        ),
    },
    meanings={
        **dict.fromkeys(("bar", "in the image", "no-cgroups"), ""),
    },
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
