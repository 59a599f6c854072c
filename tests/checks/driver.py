"""Cases of the checks in checks/gpudoctor_checks/driver/."""

from typing import Any

import msgspec

from gpudoctor.read.file import snapshot_of
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
from gpudoctor.testing.cases import error, silent, skipped, warning
from gpudoctor.testing.machines import (
    UNSUPPORTED,
    but,
    but_gpu,
    gpu,
    h100_node,
    node,
    rtx_4090_node,
    t4_node,
    unread,
)
from tests.pasted_examples import lspci
from tests.smi_tables import table

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


def silenced(machine: Snapshot, place: int) -> Snapshot:
    """The machine as its owner's lspci shows it when that device no longer answers."""
    devices = list(machine.accelerators.pci.value)
    devices[place] = msgspec.structs.replace(devices[place], is_silent=True)
    return but(machine, PCI, tuple(devices))


def bound(machine: Snapshot, driver: str, *places: int) -> Snapshot:
    """The machine with the driver of some of its PCI devices (all, when none is named) replaced."""
    devices = list(machine.accelerators.pci.value)
    for place in places or range(len(devices)):
        devices[place] = msgspec.structs.replace(devices[place], driver=driver)
    return but(machine, PCI, tuple(devices))


def with_pci(machine: Snapshot, *more: PciDevice) -> Snapshot:
    return but(machine, PCI, (*machine.accelerators.pci.value, *more))


def without_hardware(machine: Snapshot) -> Snapshot:
    return but(but(machine, PCI, ()), NODES, ())


def in_container(machine: Snapshot, kind: str = "docker") -> Snapshot:
    return but(machine, "host.container", kind)


def with_environment(machine: Snapshot, **variables: str) -> Snapshot:
    return but(machine, "environment", variables)


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
    return but(machine, NODES, tuple(files))


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
    return but(machine, NODES, tuple(files))


T4_MINUS_ONE = but(t4_node(), "nvidia.gpus", t4_node().nvidia.gpus.value[:1])
LAPTOP: dict[str, Any] = {
    "bus_id": "0000:01:00.0",
    "vendor": "0x10de",
    "device": "0x0df4",
    "device_class": "0x030000",
}
OLD_DISPLAY_CARD = PciDevice("0000:03:00.0", "0x10de", "0x0fc6", "0x030000")
IN_VM_GUESTS = PciDevice("0000:04:00.0", "0x10de", "0x2330", "0x030200", "vfio-pci")
HUNG = missing("nvmlDeviceGetMemoryInfo GPU 3", "nvmlDeviceGetMemoryInfo GPU 3 did not return within 10 s", "timeout")
OUR_FAULT = "the process failed with exit status 1: ModuleNotFoundError: No module named 'pynvml'"
KILLED = "the process was killed by SIGSEGV during nvmlInitWithFlags"

CASES = {
    "nvidia-driver-missing": [
        error(
            bound(init(t4_node(), 12), ""),
            "2 NVIDIA GPUs on the PCI bus (0000:1b:00.0, ...)",
            "no NVIDIA driver",
            runs="sudo ubuntu-drivers install",
        ),
        error(
            init(t4_node(1), 12, module=read("/proc/driver/nvidia/version", "580.95.05")),
            "1 NVIDIA GPU on",
            "580.95.05",
            "libnvidia-ml.so.1",
            runs="sudo apt install libnvidia-compute-580",
        ),
        error(
            but(bound(init(t4_node(1), 12), ""), "host.distribution", "Rocky Linux 9.4"),
            runs="lspci -k -s 0000:1b:00.0",
        ),
        silent(without_hardware(init(t4_node(), 12))),
        # handed to virtual machines
        silent(bound(init(t4_node(), 12), "vfio-pci"), in_container(init(t4_node(), 12))),
        silent(bound(init(t4_node(), 12), "nouveau")),
        skipped(but(init(t4_node(), 12), PCI, unread())),
        skipped(unanswered(t4_node(), KILLED, "failed")),
    ],
    "nvidia-driver-not-loaded": [
        error(
            bound(init(t4_node(), 9), ""),
            "NVML error 9",
            "2 NVIDIA GPUs",
            "6.8.0-60-generic",
            runs=("sudo modprobe nvidia", "mokutil --sb-state"),
        ),
        error(in_container(init(t4_node(), 9))),
        # a cloud image with the driver, on a machine without a GPU
        silent(without_hardware(init(t4_node(), 9)), bound(init(t4_node(), 9), "nouveau")),
        skipped(but(init(h100_node(), 9), PCI, unread())),
    ],
    "failure-told": [
        error(
            snapshot_of(
                b'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].'
            ),
            "toolkit is not installed",
            runs="sudo nvidia-ctk runtime configure --runtime=docker",
        ),
        error(
            snapshot_of(b"[ 5.5] NVRM: GPU 0000:02:00.0: RmInitAdapter failed! (0x22:0x56:884)"), "no longer answers"
        ),
        error(
            snapshot_of(b"modprobe: ERROR: could not insert 'nvidia': Key was rejected by service"),
            "Secure Boot is on",
            runs="mokutil --sb-state",
        ),
        silent(but(h100_node(), "told_troubles", ())),
        skipped(but(h100_node(), "told_troubles", unread())),
    ],
    "driver-serves-no-gpu": [
        error(snapshot_of(b"No devices were found"), "serves no GPU", runs="lspci -nn | grep -i nvidia"),
        silent(h100_node(1), but(h100_node(), "nvidia.gpus", ())),  # gpu-count-below-pci names the second's
        skipped(but(but(but(h100_node(), "nvidia.gpus", ()), PCI, unread()), NODES, unread()), "nvidia.gpus"),
    ],
    "nvidia-driver-library-mismatch": [
        error(
            init(h100_node(), 18, module=read("/proc/driver/nvidia/version", "565.57.01")),
            "565.57.01",
            "NVML error 18",
            runs=("sudo reboot", "sudo rmmod nvidia_uvm nvidia_modeset nvidia && sudo modprobe nvidia"),
        ),
        error(in_container(init(h100_node(), 18))),
        silent(init(h100_node(), 17)),
        skipped(unanswered(h100_node(), "no answer within 10 s", "timeout")),
    ],
    "nouveau-bound": [
        error(
            bound(init(t4_node(), 12), "nouveau"),
            "2 of 2 NVIDIA GPUs",
            "0000:1b:00.0",
            runs=("sudo update-initramfs -u", "sudo reboot"),
        ),
        warning(bound(rtx_4090_node(), "nouveau", 0), "1 of 4"),
        silent(bound(rtx_4090_node(), "vfio-pci", 0)),
        skipped(but(t4_node(), PCI, unread())),
    ],
    "nvidia-devices-unreadable": [
        error(
            nodes(init(t4_node(), 4), 0o660, "vglusers"),
            "/dev/nvidiactl",
            "mode 0660",
            "group vglusers",
            runs='sudo usermod -aG vglusers "$USER"',
        ),
        warning(
            nodes(t4_node(), 0o600, only="nvidia1"), "/dev/nvidia1", "mode 0600", runs="sudo chmod 0666 /dev/nvidia1"
        ),
        error(in_container(init(t4_node(), 4)), "NVML error 4"),
        error(withheld(t4_node(), ""), "mode 0666"),
        # a job's device cgroup leaves it the other GPU
        silent(withheld(t4_node(), "nvidia1")),
        skipped(but(t4_node(), NODES, unread())),
        skipped(but(t4_node(), "nvidia.init_code", unread())),
    ],
    "nvml-unresponsive": [
        error(
            unanswered(h100_node(), "nvmlInitWithFlags did not return within 10 s", "timeout"),
            "nvmlInitWithFlags did not return within 10 s",
        ),
        error(
            but(
                but_gpu(h100_node(), 3, memory_used_bytes=HUNG, utilization_gpu_percent=HUNG),
                "host.stuck_processes",
                (StuckProcess(812, "nvidia-smi", "D"),),
            ),
            "nvmlDeviceGetMemoryInfo GPU 3",
        ),
        silent(but_gpu(h100_node(), 3, memory_used_bytes=unread())),
        skipped(unanswered(h100_node(), KILLED, "failed")),
    ],
    "nvml-broken": [
        # a library that crashes is a finding, whatever the PCI bus shows
        error(without_hardware(unanswered(h100_node(), KILLED, "failed")), "killed by SIGSEGV"),
        error(in_container(init(h100_node(), 999)), "error 999 (UNKNOWN)", "revoked"),
        error(init(h100_node(), 8), "power cables"),
        error(
            but(h100_node(), "nvidia.gpus", missing("nvmlDeviceGetCount", "NVML error 999, Unknown")), "NVML error 999"
        ),
        # GPUs are read side by side, and whichever call crashed took the others along.
        error(
            but_gpu(
                but_gpu(
                    h100_node(),
                    3,
                    serial=missing("nvml", KILLED.replace("nvmlInitWithFlags", "nvmlDeviceGetSerial GPU 3")),
                ),
                5,
                name=missing("nvml", KILLED.replace("nvmlInitWithFlags", "nvmlDeviceGetName GPU 5")),
            ),
            "SIGSEGV during one of nvmlDeviceGetSerial GPU 3 and nvmlDeviceGetName GPU 5",
        ),
        silent(without_hardware(init(h100_node(), 999)), init(h100_node(), 18)),
        skipped(unanswered(h100_node(), "no answer within 10 s", "timeout")),
        skipped(unanswered(h100_node(), OUR_FAULT, "failed")),
    ],
    "nvml-library-missing-in-container": [
        error(
            in_container(init(t4_node(), 12)),
            "/dev/nvidiactl is there",
            "docker",
            runs="docker run --rm --gpus all ubuntu nvidia-smi",
        ),
        warning(in_container(but(init(t4_node(), 12), NODES, ()), "singularity")),
        error(
            with_environment(in_container(init(t4_node(), 12)), NVIDIA_DRIVER_CAPABILITIES="compute"),
        ),
        silent(in_container(without_hardware(init(t4_node(), 12)))),
        silent(init(t4_node(), 12)),
        skipped(but(init(t4_node(), 12), "host.container", unread())),
    ],
    "gpu-count-below-pci": [
        error(T4_MINUS_ONE, "serves 1 of the 2 NVIDIA GPUs", "without 0000:2b:00.0", runs="lspci -nnk -s 0000:2b:00.0"),
        warning(with_pci(h100_node(), OLD_DISPLAY_CARD), "without 0000:03:00.0"),
        # Pasted: nothing tells of a container or a job, and half of the GPUs may be its share.
        error(snapshot_of((lspci() + table(count=7)).encode()), "serves 7 of the 8"),
        warning(snapshot_of((lspci() + table(count=4)).encode()), "serves 4 of the 8"),
        silent(withheld(T4_MINUS_ONE, "nvidia1")),  # a PBS or LSF job was given one of two
        # given one of two
        silent(in_container(T4_MINUS_ONE), with_environment(T4_MINUS_ONE, SLURM_JOB_ID="17")),
        silent(with_pci(h100_node(4), IN_VM_GUESTS)),
        skipped(but(t4_node(), PCI, unread()), but(T4_MINUS_ONE, "host.container", unread())),
    ],
    "cuda-init-failed": [
        error(
            cuda(h100_node(), 802, "CUDA_ERROR_SYSTEM_NOT_READY"),
            "error 802 (CUDA_ERROR_SYSTEM_NOT_READY)",
            "counts 8 GPUs",
            runs="sudo systemctl enable --now nvidia-fabricmanager",
        ),
        error(with_environment(cuda(t4_node(), 100), CUDA_VISIBLE_DEVICES="0"), "error 100 (CUDA_ERROR_NO_DEVICE)"),
        error(
            with_environment(cuda(t4_node(), 101), CUDA_VISIBLE_DEVICES="MIG-x"),
            "error 101 (CUDA_ERROR_INVALID_DEVICE)",
        ),
        error(cuda(init(t4_node(), 9), 100), runs="nvidia-smi"),
        error(cuda(t4_node(), 4242), "4242"),
        silent(without_hardware(cuda(init(h100_node(), 12), 100))),
        # The variable hides every GPU, and without it CUDA starts.
        silent(
            with_environment(but(t4_node(), VISIBLE, CudaAnswer(100, "CUDA_ERROR_NO_DEVICE")), CUDA_VISIBLE_DEVICES="")
        ),
        silent(with_environment(but(t4_node(), VISIBLE, CudaAnswer(101)), CUDA_VISIBLE_DEVICES="0,0")),
        skipped(but(h100_node(), VISIBLE, missing("cuInit", "cuInit did not return within 10 s", "timeout"))),
    ],
    "cuda-driver-unresponsive": [
        error(
            but(
                but(h100_node(), VISIBLE, missing("libcuda", "cuInit did not return within 10 s", "timeout")),
                "host.stuck_processes",
                (StuckProcess(812, "python", "D"),),
            ),
            "cuInit did not return within 10 s",
        ),
        silent(but(h100_node(), VISIBLE, CudaAnswer(999))),
        skipped(but(h100_node(), VISIBLE, unread())),
    ],
    "cuda-driver-crashed": [
        error(
            with_environment(
                but(h100_node(), VISIBLE, missing("libcuda", "the process was killed by SIGSEGV during cuInit")),
                LD_PRELOAD="/opt/hook.so",
            ),
            "SIGSEGV during cuInit",
        ),
        error(but(h100_node(), VISIBLE, missing("libcuda", "the process was killed by SIGBUS"))),
        silent(but(h100_node(), VISIBLE, CudaAnswer(999))),
        skipped(copied(h100_node()), but(h100_node(), VISIBLE, missing("libcuda", OUR_FAULT))),
    ],
    "cuda-library-missing": [
        error(
            but(t4_node(), VISIBLE, absent("libcuda.so.1", "libcuda.so.1 not found")),
            "580.95.05",
            "2 GPUs",
            runs="sudo apt install libnvidia-compute-580",
        ),
        error(
            in_container(but(t4_node(), VISIBLE, absent("libcuda.so.1", "libcuda.so.1 not found"))),
        ),
        silent(but(but(t4_node(), VISIBLE, absent("libcuda.so.1", "libcuda.so.1 not found")), "nvidia.gpus", ())),
        skipped(but(t4_node(), VISIBLE, unread())),
    ],
    "nvidia-uvm-not-loaded": [
        error(
            nodes(cuda(t4_node(), 999), without="/dev/nvidia-uvm"),
            "/dev/nvidia-uvm does not exist",
            "error 999",
            runs="sudo nvidia-modprobe -u -c=0",
        ),
        error(in_container(nodes(cuda(t4_node(), 304), 0o600, only="uvm")), "mode 0600"),
        # The first CUDA program loads the module: without its device file, but with CUDA working, nothing is wrong.
        silent(nodes(t4_node(), without="/dev/nvidia-uvm")),
        silent(cuda(h100_node(), 802)),  # the device is there; CUDA fails for another reason
        silent(but(nodes(cuda(t4_node(), 999), without="/dev/nvidia-uvm"), "host.virtualization", "wsl2")),
        skipped(but(t4_node(), NODES, unread())),
    ],
    "fabric-manager-not-running": [
        error(but(h100_node(), MANAGER, ""), "4 NVSwitches", runs="sudo systemctl enable --now nvidia-fabricmanager"),
        error(init(but(h100_node(), MANAGER, ""), 9)),
        # PCIe boards
        silent(but(node(tuple(gpu(n, fabric=UNSUPPORTED) for n in range(4))), MANAGER, "")),
        skipped(in_container(but(h100_node(), MANAGER, ""))),
        skipped(but(h100_node(), MANAGER, unread())),
    ],
    "gpu-silent-on-pci": [
        error(silenced(h100_node(), 3), "does not answer", "rev ff", runs="sudo lspci -vv -s 0000:4b:00.0"),
        error(silenced(t4_node(), 0), "does not answer"),
        warning(
            but(t4_node(), PCI, (PciDevice(**LAPTOP, model="GeForce GT 540M", is_silent=True),)),
            "GeForce GT 540M",
        ),
        silent(h100_node()),
        skipped(but(h100_node(), PCI, unread())),
    ],
    "fabric-manager-version-differs": [
        error(
            but(h100_node(), MANAGER, "580.82.07"),
            "580.82.07",
            "580.95.05",
            runs="sudo apt install 'nvidia-fabricmanager-580=580.95.05*'",
        ),
        silent(but(h100_node(), MANAGER, "")),
        # A fabric manager that somebody installed on a machine without NVSwitches, and that nothing needs.
        silent(but(node(tuple(gpu(n, fabric=UNSUPPORTED) for n in range(2))), MANAGER, "565.57.01")),
        skipped(but(h100_node(), MANAGER, "running")),
    ],
    "cuda-stub-library": [
        error(
            with_environment(
                cuda(t4_node(), 34, "CUDA_ERROR_STUB_LIBRARY", "/usr/local/cuda/lib64/stubs/libcuda.so.1"),
                LD_LIBRARY_PATH="/usr/local/cuda/lib64/stubs:/opt/my lib",
            ),
            "/usr/local/cuda/lib64/stubs/libcuda.so.1",
            "error 34",
            runs="export LD_LIBRARY_PATH='/opt/my lib'",
        ),
        error(cuda(rtx_4090_node(), 34, library=""), "a stub libcuda", "error 34"),
        silent(cuda(t4_node(), 0, "CUDA_SUCCESS", "/usr/local/cuda-13.0/compat/libcuda.so.1")),
        # on the path, not loaded
        silent(with_environment(t4_node(), LD_LIBRARY_PATH="/usr/local/cuda/lib64/stubs")),
        skipped(but(t4_node(), VISIBLE, unread())),
    ],
}
