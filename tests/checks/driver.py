"""Cases of the checks in checks/gpudoctor_checks/driver/."""

from typing import Any

import msgspec

from gpudoctor.snapshot import (
    CudaAnswer,
    DeviceNode,
    MissingKind,
    Nvidia,
    PciDevice,
    Reading,
    Snapshot,
    StuckProcess,
    absent,
    missing,
    read,
)
from tests.build import (
    UNSUPPORTED,
    but,
    but_gpu,
    gpu,
    h100_node,
    node,
    nvml,
    rtx_4090_node,
    t4_node,
    unread,
)
from tests.cases import Case

PCI = "accelerators.pci"
NODES = "accelerators.device_nodes"
MANAGER = "host.fabric_manager"
VISIBLE = "cuda.visible"


def init(machine: Snapshot, code: int, *, module: Reading[str] | None = None) -> Snapshot:
    """The machine as it looks when nvmlInit gives an error: nothing else could be asked."""
    reason = missing("nvmlInit", f"NVML error {code}")
    facts: dict[str, Any] = dict.fromkeys(Nvidia.__struct_fields__, reason)
    facts |= {
        "init_code": read("nvmlInit", code),
        "kernel_module_version": module or absent("/proc/driver/nvidia/version", "not on this machine"),
    }
    return but(machine, "nvidia", Nvidia(**facts))


def unanswered(machine: Snapshot, reason: str, kind: MissingKind) -> Snapshot:
    """The machine when the child that asks NVML hung or died in nvmlInit."""
    why = missing("nvmlInitWithFlags", reason, kind)
    return but(machine, "nvidia", Nvidia(**dict.fromkeys(Nvidia.__struct_fields__, why)))


def bound(machine: Snapshot, driver: str, *places: int) -> Snapshot:
    """The machine with the driver of some of its PCI devices (all, when none is named) replaced."""
    devices = list(machine.accelerators.pci.value)
    for place in places or range(len(devices)):
        devices[place] = msgspec.structs.replace(devices[place], driver=driver)
    return but(machine, PCI, read("/sys/bus/pci/devices", tuple(devices)))


def with_pci(machine: Snapshot, *more: PciDevice) -> Snapshot:
    return but(machine, PCI, read("/sys/bus/pci/devices", (*machine.accelerators.pci.value, *more)))


def without_hardware(machine: Snapshot) -> Snapshot:
    return but(but(machine, PCI, read("/sys/bus/pci/devices", ())), NODES, read("/dev", ()))


def in_container(machine: Snapshot, kind: str = "docker") -> Snapshot:
    return but(machine, "host.container", read("/proc/1", kind))


def with_environment(machine: Snapshot, **variables: str) -> Snapshot:
    return but(machine, "environment", read("environment of gpudoctor", variables))


def cuda(machine: Snapshot, error: int, name: str = "", library: str = "/usr/lib/libcuda.so.1") -> Snapshot:
    """The machine on which cuInit gives an error, with CUDA_VISIBLE_DEVICES and without."""
    answer = read("cuInit", CudaAnswer(error, name, library=library))
    return but(but(machine, VISIBLE, answer), "cuda.all", answer)


def nodes(machine: Snapshot, mode: int = 0o666, group: str = "root", without: str = "", only: str = "") -> Snapshot:
    """The machine with device files of this mode (all, or those whose path ends in `only`), and perhaps without one."""
    files = [
        DeviceNode(node.path, mode == 0o666, mode == 0o666, mode, "root", group) if node.path.endswith(only) else node
        for node in machine.accelerators.device_nodes.value
        if node.path != without
    ]
    return but(machine, NODES, read("/dev", tuple(files)))


def copied(machine: Snapshot) -> Snapshot:
    """What pasted nvidia-smi output leads to: facts that it lacks are missing, and that is no failure."""
    lacking = missing("nvidia-smi -q", "nvidia-smi -q does not say")
    machine = but(but(machine, "nvidia.init_code", lacking), VISIBLE, lacking)
    return but(machine, "origin", "nvidia-smi -q")


def withheld(machine: Snapshot, which: str) -> Snapshot:
    """The machine whose device cgroup forbids the device files that end so, whatever their mode."""
    files = [
        DeviceNode(node.path, False, False, node.mode, node.owner, node.group) if node.path.endswith(which) else node
        for node in machine.accelerators.device_nodes.value
    ]
    return but(machine, NODES, read("/dev", tuple(files)))


T4_MINUS_ONE = but(t4_node(), "nvidia.gpus", nvml(t4_node().nvidia.gpus.value[:1]))
OLD_DISPLAY_CARD = PciDevice("0000:03:00.0", "0x10de", "0x0fc6", "0x030000")
IN_VM_GUESTS = PciDevice("0000:04:00.0", "0x10de", "0x2330", "0x030200", "vfio-pci")
HUNG = missing("nvmlDeviceGetMemoryInfo GPU 3", "nvmlDeviceGetMemoryInfo GPU 3 did not return within 10 s", "timeout")
OUR_FAULT = "the process failed with exit status 1: ModuleNotFoundError: No module named 'pynvml'"
KILLED = "the process was killed by SIGSEGV during nvmlInitWithFlags"

CASES = [
    Case(
        "nvidia-driver-missing",
        fires=bound(init(t4_node(), 12), ""),
        silent=without_hardware(init(t4_node(), 12)),
        unread=but(init(t4_node(), 12), PCI, unread()),
        says=("2 NVIDIA GPUs on the PCI bus (0000:1b:00.0, ...)", "no NVIDIA driver"),
        commands=("sudo ubuntu-drivers install",),
    ),
    Case(
        "nvidia-driver-missing",
        fires=init(t4_node(1), 12, module=read("/proc/driver/nvidia/version", "580.95.05")),
        silent=bound(init(t4_node(), 12), "vfio-pci"),  # handed to virtual machines
        says=("1 NVIDIA GPU on", "580.95.05", "libnvidia-ml.so.1"),
        commands=("sudo apt install libnvidia-compute-580",),
    ),
    Case(
        "nvidia-driver-missing",
        fires=but(bound(init(t4_node(1), 12), ""), "host.distribution", read("/etc/os-release", "Rocky Linux 9.4")),
        silent=in_container(init(t4_node(), 12)),
        commands=("lspci -k -s 0000:1b:00.0",),
    ),
    Case(
        "nvidia-driver-missing",
        fires=bound(init(t4_node(1), 12), ""),
        silent=bound(init(t4_node(), 12), "nouveau"),
        unread=unanswered(t4_node(), KILLED, "failed"),
    ),
    Case(
        "nvidia-driver-not-loaded",
        fires=bound(init(t4_node(), 9), ""),
        silent=without_hardware(init(t4_node(), 9)),  # a cloud image with the driver, on a machine without a GPU
        unread=but(init(h100_node(), 9), PCI, unread()),
        says=("NVML error 9", "2 NVIDIA GPUs", "6.8.0-60-generic"),
        commands=("sudo modprobe nvidia", "mokutil --sb-state"),
    ),
    Case(
        "nvidia-driver-not-loaded", fires=in_container(init(t4_node(), 9)), silent=bound(init(t4_node(), 9), "nouveau")
    ),
    Case(
        "nvidia-driver-library-mismatch",
        fires=init(h100_node(), 18, module=read("/proc/driver/nvidia/version", "565.57.01")),
        unread=unanswered(h100_node(), "no answer within 10 s", "timeout"),
        says=("565.57.01", "NVML error 18"),
        commands=("sudo reboot", "sudo rmmod nvidia_uvm nvidia_modeset nvidia && sudo modprobe nvidia"),
    ),
    Case("nvidia-driver-library-mismatch", fires=in_container(init(h100_node(), 18))),
    Case(
        "nouveau-bound",
        fires=bound(init(t4_node(), 12), "nouveau"),
        unread=but(t4_node(), PCI, unread()),
        says=("2 of 2 NVIDIA GPUs", "0000:1b:00.0"),
        commands=("sudo update-initramfs -u", "sudo reboot"),
    ),
    Case("nouveau-bound", fires=bound(rtx_4090_node(), "nouveau", 0), severity="warning", says=("1 of 4",)),
    Case(
        "nvidia-devices-unreadable",
        fires=nodes(init(t4_node(), 4), 0o660, "vglusers"),
        unread=but(t4_node(), NODES, unread()),
        says=("/dev/nvidiactl", "mode 0660", "group vglusers"),
        commands=('sudo usermod -aG vglusers "$USER"',),
    ),
    Case(
        "nvidia-devices-unreadable",
        fires=nodes(t4_node(), 0o600, only="nvidia1"),
        unread=but(t4_node(), "nvidia.init_code", unread()),
        severity="warning",
        says=("/dev/nvidia1", "mode 0600"),
        commands=("sudo chmod 0666 /dev/nvidia1",),
    ),
    Case("nvidia-devices-unreadable", fires=in_container(init(t4_node(), 4)), says=("NVML error 4",)),
    Case(
        "nvidia-devices-unreadable",
        fires=withheld(t4_node(), ""),
        silent=withheld(t4_node(), "nvidia1"),  # a job's device cgroup leaves it the other GPU
        says=("mode 0666",),
        commands=("docker run --gpus all ...",),
    ),
    Case(
        "nvml-unresponsive",
        fires=unanswered(h100_node(), "nvmlInitWithFlags did not return within 10 s", "timeout"),
        unread=unanswered(h100_node(), KILLED, "failed"),
        says=("nvmlInitWithFlags did not return within 10 s",),
    ),
    Case(
        "nvml-unresponsive",
        fires=but(
            but_gpu(h100_node(), 3, memory_used_bytes=HUNG, utilization_gpu_percent=HUNG),
            "host.stuck_processes",
            read("/proc", (StuckProcess(812, "nvidia-smi", "D"),)),
        ),
        says=("nvmlDeviceGetMemoryInfo GPU 3",),
    ),
    Case(
        "nvml-broken",
        fires=unanswered(h100_node(), KILLED, "failed"),
        unread=unanswered(h100_node(), "no answer within 10 s", "timeout"),
        says=("killed by SIGSEGV",),
    ),
    Case(  # a library that crashes is a finding, whatever the PCI bus shows
        "nvml-broken",
        fires=without_hardware(unanswered(h100_node(), KILLED, "failed")),
        says=("killed by SIGSEGV",),
    ),
    Case(
        "nvml-broken",
        fires=in_container(init(h100_node(), 999)),
        silent=without_hardware(init(h100_node(), 999)),
        unread=copied(h100_node()),
        says=("error 999 (UNKNOWN)", "revoked"),
    ),
    Case("nvml-broken", fires=init(h100_node(), 8), silent=init(h100_node(), 18), says=("power cables",)),
    Case(
        "nvml-broken",
        fires=but(h100_node(), "nvidia.gpus", missing("nvmlDeviceGetCount", "NVML error 999, Unknown")),
        silent=but_gpu(h100_node(), 3, serial=missing("nvmlDeviceGetSerial GPU 3", "NVML error 999, Unknown")),
        says=("NVML error 999",),
    ),
    Case(
        "nvml-broken",
        fires=but_gpu(h100_node(), 3, serial=missing("nvmlDeviceGetSerial GPU 3", KILLED)),
        unread=unanswered(h100_node(), OUR_FAULT, "failed"),
    ),
    Case(
        "nvml-broken",
        # GPUs are read side by side, and whichever call crashed took the others along.
        fires=but_gpu(
            but_gpu(
                h100_node(), 3, serial=missing("nvml", KILLED.replace("nvmlInitWithFlags", "nvmlDeviceGetSerial GPU 3"))
            ),
            5,
            name=missing("nvml", KILLED.replace("nvmlInitWithFlags", "nvmlDeviceGetName GPU 5")),
        ),
        says=("SIGSEGV during one of nvmlDeviceGetSerial GPU 3 and nvmlDeviceGetName GPU 5",),
    ),
    Case(
        "nvml-library-missing-in-container",
        fires=in_container(init(t4_node(), 12)),
        silent=in_container(without_hardware(init(t4_node(), 12))),
        unread=but(init(t4_node(), 12), "host.container", unread()),
        says=("/dev/nvidiactl is there", "docker"),
        commands=("docker run --gpus all ...",),
    ),
    Case(
        "nvml-library-missing-in-container",
        fires=in_container(but(init(t4_node(), 12), NODES, read("/dev", ())), "singularity"),
        severity="warning",
        commands=("singularity exec --nv ...",),
    ),
    Case(
        "nvml-library-missing-in-container",
        fires=with_environment(in_container(init(t4_node(), 12)), NVIDIA_DRIVER_CAPABILITIES="compute"),
        silent=init(t4_node(), 12),
        commands=("docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility ...",),
    ),
    Case(
        "gpu-count-below-pci",
        fires=T4_MINUS_ONE,
        silent=withheld(T4_MINUS_ONE, "nvidia1"),  # a PBS or LSF job was given one of two
    ),
    Case(
        "gpu-count-below-pci",
        fires=T4_MINUS_ONE,
        silent=in_container(T4_MINUS_ONE),  # given one of two
        unread=but(t4_node(), PCI, unread()),
        says=("serves 1 of the 2 NVIDIA GPUs", "without 0000:2b:00.0"),
        commands=("lspci -nnk -s 0000:2b:00.0",),
    ),
    Case(
        "gpu-count-below-pci",
        fires=with_pci(h100_node(), OLD_DISPLAY_CARD),
        silent=with_environment(T4_MINUS_ONE, SLURM_JOB_ID="17"),
        unread=but(T4_MINUS_ONE, "host.container", unread()),
        severity="warning",
        says=("without 0000:03:00.0",),
    ),
    Case("gpu-count-below-pci", fires=T4_MINUS_ONE, silent=with_pci(h100_node(4), IN_VM_GUESTS)),
    Case(
        "cuda-init-failed",
        fires=cuda(h100_node(), 802, "CUDA_ERROR_SYSTEM_NOT_READY"),
        silent=without_hardware(cuda(init(h100_node(), 12), 100)),
        unread=but(h100_node(), VISIBLE, missing("cuInit", "cuInit did not return within 10 s", "timeout")),
        says=("error 802 (CUDA_ERROR_SYSTEM_NOT_READY)", "counts 8 GPUs"),
        commands=("sudo systemctl enable --now nvidia-fabricmanager",),
    ),
    Case(
        "cuda-init-failed",
        fires=with_environment(cuda(t4_node(), 100), CUDA_VISIBLE_DEVICES="0"),
        # The variable hides every GPU, and without it CUDA starts.
        silent=with_environment(
            but(t4_node(), VISIBLE, read("cuInit", CudaAnswer(100, "CUDA_ERROR_NO_DEVICE"))), CUDA_VISIBLE_DEVICES=""
        ),
        says=("error 100 (CUDA_ERROR_NO_DEVICE)",),
    ),
    Case(
        "cuda-init-failed",
        fires=with_environment(but(t4_node(), VISIBLE, read("cuInit", CudaAnswer(101))), CUDA_VISIBLE_DEVICES="MIG-x"),
        says=("error 101 (CUDA_ERROR_INVALID_DEVICE)",),
    ),
    Case("cuda-init-failed", fires=cuda(init(t4_node(), 9), 100), commands=("nvidia-smi",)),
    Case("cuda-init-failed", fires=cuda(t4_node(), 4242), says=("4242",)),
    Case(
        "cuda-driver-unresponsive",
        fires=but(
            but(h100_node(), VISIBLE, missing("libcuda", "cuInit did not return within 10 s", "timeout")),
            "host.stuck_processes",
            read("/proc", (StuckProcess(812, "python", "D"),)),
        ),
        unread=but(h100_node(), VISIBLE, unread()),
        says=("cuInit did not return within 10 s",),
    ),
    Case(
        "cuda-driver-crashed",
        fires=with_environment(
            but(h100_node(), VISIBLE, missing("libcuda", "the process was killed by SIGSEGV during cuInit")),
            LD_PRELOAD="/opt/hook.so",
        ),
        unread=copied(h100_node()),
        says=("SIGSEGV during cuInit",),
    ),
    Case(
        "cuda-driver-crashed",
        fires=but(h100_node(), VISIBLE, missing("libcuda", "the process was killed by SIGBUS")),
        unread=but(h100_node(), VISIBLE, missing("libcuda", OUR_FAULT)),
    ),
    Case(
        "cuda-library-missing",
        fires=but(t4_node(), VISIBLE, absent("libcuda.so.1", "libcuda.so.1 not found")),
        unread=but(t4_node(), VISIBLE, unread()),
        says=("580.95.05", "2 GPUs"),
        commands=("sudo apt install libnvidia-compute-580",),
    ),
    Case(
        "cuda-library-missing",
        fires=in_container(but(t4_node(), VISIBLE, absent("libcuda.so.1", "libcuda.so.1 not found"))),
        silent=but(but(t4_node(), VISIBLE, absent("libcuda.so.1", "libcuda.so.1 not found")), "nvidia.gpus", nvml(())),
        commands=("docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility ...",),
    ),
    Case(
        "nvidia-uvm-not-loaded",
        fires=nodes(cuda(t4_node(), 999), without="/dev/nvidia-uvm"),
        # The first CUDA program loads the module: without its device file, but with CUDA working, nothing is wrong.
        silent=nodes(t4_node(), without="/dev/nvidia-uvm"),
        unread=but(t4_node(), NODES, unread()),
        says=("/dev/nvidia-uvm does not exist", "error 999"),
        commands=("sudo nvidia-modprobe -u -c=0",),
    ),
    Case(
        "nvidia-uvm-not-loaded",
        fires=nodes(cuda(t4_node(), 100), without="/dev/nvidia-uvm"),
        silent=cuda(h100_node(), 802),  # the device is there; CUDA fails for another reason
    ),
    Case(
        "nvidia-uvm-not-loaded",
        fires=in_container(nodes(cuda(t4_node(), 304), 0o600, only="uvm")),
        silent=but(
            nodes(cuda(t4_node(), 999), without="/dev/nvidia-uvm"), "host.virtualization", read("/proc/version", "wsl2")
        ),
        says=("mode 0600",),
    ),
    Case(
        "fabric-manager-not-running",
        fires=but(h100_node(), MANAGER, read("/proc", "")),
        silent=but(
            node(tuple(gpu(n, fabric=UNSUPPORTED) for n in range(4))), MANAGER, read("/proc", "")
        ),  # PCIe boards
        unread=in_container(but(h100_node(), MANAGER, read("/proc", ""))),
        says=("4 NVSwitches",),
        commands=("sudo systemctl enable --now nvidia-fabricmanager",),
    ),
    Case(
        "fabric-manager-not-running",
        fires=init(but(h100_node(), MANAGER, read("/proc", "")), 9),
        silent=but(node(tuple(gpu(n, name=nvml("NVIDIA GB200")) for n in range(4))), MANAGER, read("/proc", "")),
        unread=but(h100_node(), MANAGER, unread()),
    ),
    Case(
        "fabric-manager-version-differs",
        fires=but(h100_node(), MANAGER, read("/proc", "580.82.07")),
        silent=but(h100_node(), MANAGER, read("/proc", "")),
        unread=but(h100_node(), MANAGER, read("/proc", "running")),
        says=("580.82.07", "580.95.05"),
        commands=("sudo apt install 'nvidia-fabricmanager-580=580.95.05*'",),
    ),
    Case(
        "fabric-manager-version-differs",
        fires=but(h100_node(), MANAGER, read("/proc", "565.57.01")),
        # A fabric manager that somebody installed on a machine without NVSwitches, and that nothing needs.
        silent=but(node(tuple(gpu(n, fabric=UNSUPPORTED) for n in range(2))), MANAGER, read("/proc", "565.57.01")),
    ),
    Case(
        "cuda-stub-library",
        fires=with_environment(
            cuda(t4_node(), 34, "CUDA_ERROR_STUB_LIBRARY", "/usr/local/cuda/lib64/stubs/libcuda.so.1"),
            LD_LIBRARY_PATH="/usr/local/cuda/lib64/stubs:/opt/my lib",
        ),
        silent=cuda(t4_node(), 0, "CUDA_SUCCESS", "/usr/local/cuda-13.0/compat/libcuda.so.1"),
        unread=but(t4_node(), VISIBLE, unread()),
        says=("/usr/local/cuda/lib64/stubs/libcuda.so.1", "error 34"),
        commands=("export LD_LIBRARY_PATH='/opt/my lib'",),
    ),
    Case(
        "cuda-stub-library",
        fires=cuda(rtx_4090_node(), 34, library=""),
        silent=with_environment(t4_node(), LD_LIBRARY_PATH="/usr/local/cuda/lib64/stubs"),  # on the path, not loaded
        says=("a stub libcuda", "error 34"),
    ),
]
