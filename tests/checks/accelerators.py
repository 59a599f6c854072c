"""Cases of the checks in checks/gpudoctor_checks/accelerators/."""

from msgspec import structs

from gpudoctor.snapshot import DeviceNode, PciDevice, Snapshot, TorchFiles, absent
from gpudoctor.testing.cases import error, info, silent, skipped, warning
from gpudoctor.testing.machines import but, h100_node, node, unread

PCI, NODES, FILES = "accelerators.pci", "accelerators.device_nodes", "training.torch_files"

MI300X = PciDevice("0000:05:00.0", "0x1002", "0x74a1", "0x120000", "amdgpu")
MI300X_UNBOUND = PciDevice("0000:05:00.0", "0x1002", "0x74a1", "0x120000")
RYZEN_GRAPHICS = PciDevice("0000:c5:00.0", "0x1002", "0x15bf", "0x030000", "amdgpu")
PVC = PciDevice("0000:3a:00.0", "0x8086", "0x0bd5", "0x038000", "i915")
ARC = PciDevice("0000:03:00.0", "0x8086", "0xe20b", "0x030000", "xe")
INTEL_GRAPHICS = PciDevice("0000:00:02.0", "0x8086", "0x46a6", "0x030000", "i915")
INTEL_NPU = PciDevice("0000:00:0b.0", "0x8086", "0x7d1d", "0x120000", "intel_vpu")
TPU = PciDevice("0000:00:04.0", "0x1ae0", "0x0063", "0x120000", "vfio-pci")
GOOGLE_NETWORK_CARD = PciDevice("0000:00:05.0", "0x1ae0", "0x0042", "0x020000", "gvnic")
VIRTUAL_VGA = PciDevice("0000:00:02.0", "0x1234", "0x1111", "0x030000", "bochs-drm")

KFD = DeviceNode("/dev/kfd", True, True, 0o660, "root", "render")
NPU_NODE = DeviceNode("/dev/accel/accel0", True, True, 0o660, "root", "render")
VFIO = DeviceNode("/dev/vfio/0", True, True, 0o600, "root", "root")
ROCM = TorchFiles("2.13.0+rocm7.2", "/opt/venv/torch", hip="7.2.26015")
XPU = TorchFiles("2.13.0+xpu", "/opt/venv/torch", xpu="20250302")
NO_TORCH = absent("torch/version.py", "torch is not installed")


def plain(*devices: PciDevice, nodes: tuple[DeviceNode, ...] = ()) -> Snapshot:
    """A machine without an NVIDIA GPU, with the default (CUDA) wheel of torch, and these devices."""
    machine = but(node(()), "nvidia.gpus", absent("/sys/bus/pci/devices", "no NVIDIA GPU on this machine"))
    return but(but(machine, PCI, devices), NODES, nodes)


def with_xla(machine: Snapshot) -> Snapshot:
    return but(machine, "training.packages", {"torch": "2.9.0", "torch-xla": "2.9.0"})


def with_tpu_backend(machine: Snapshot) -> Snapshot:
    return but(machine, "training.packages", {"torch": "2.13.0", "torch_tpu": "0.2"})


def with_environment(machine: Snapshot, **variables: str) -> Snapshot:
    return but(machine, "environment", variables)


INSTINCT = plain(MI300X, nodes=(KFD,))
CASES = {
    "accelerator-missing": [
        info(plain(INTEL_GRAPHICS, INTEL_NPU, nodes=(NPU_NODE,))),  # a laptop
        info(plain()),  # Jetson
        info(plain(GOOGLE_NETWORK_CARD, VIRTUAL_VGA)),  # a Google Cloud VM without TPU
        silent(plain(MI300X), but(plain(), "cuda", h100_node(1).cuda), plain(TPU)),
        skipped(but(plain(), PCI, unread("/sys/bus/pci/devices"))),
        # WSL2: the GPU is no PCI device, and NVML did not answer
        skipped(
            but(
                plain(nodes=(DeviceNode("/dev/dxg", True, True, 0o666, "root", "root"),)), "nvidia.gpus", unread("nvml")
            )
        ),
    ],
    "amd-gpu-without-rocm-torch": [
        error(
            INSTINCT,
            "0000:05:00.0",
            "torch 2.13.0+cu130 is not built for ROCm",
            runs="/opt/venv/bin/python -m pip install --force-reinstall torch "
            "--index-url https://download.pytorch.org/whl/rocm7.2",
        ),
        error(but(INSTINCT, FILES, NO_TORCH), "no torch is installed"),
        info(plain(RYZEN_GRAPHICS)),
        silent(but(INSTINCT, FILES, ROCM)),
        # the graphics of a Ryzen beside an NVIDIA GPU
        silent(but(h100_node(1), PCI, (*h100_node(1).accelerators.pci.value, RYZEN_GRAPHICS))),
        skipped(but(INSTINCT, FILES, unread("torch/version.py"))),
        skipped(but(INSTINCT, PCI, unread("/sys/bus/pci/devices"))),
    ],
    "amd-gpu-uncorrected-errors": [
        error(
            plain(structs.replace(MI300X, uncorrected_errors=3)),
            "0000:05:00.0",
            "3 uncorrectable errors",
            runs="sudo dmesg | grep -iE 'amdgpu.*(uncorrect|poison|retired|ras)' | tail -n 20",
        ),
        silent(plain(MI300X), plain(structs.replace(MI300X, uncorrected_errors=0))),
        skipped(but(plain(), PCI, unread("/sys/bus/pci/devices"))),
    ],
    "amd-gpu-driver-missing": [
        error(plain(MI300X_UNBOUND), "0000:05:00.0 (no driver)", runs="sudo modprobe amdgpu"),
        error(
            plain(MI300X, nodes=(DeviceNode("/dev/kfd", False, False, 0o660, "root", "render"),)),
            "mode 0660, root:render",
            runs="sudo usermod -aG render,video $USER",
        ),
        error(plain(MI300X), "/dev/kfd does not exist"),
        info(plain(RYZEN_GRAPHICS)),  # a Ryzen laptop in a container, without ROCm
        # ... and one whose owner installed ROCm's torch, so means to use it
        error(but(plain(RYZEN_GRAPHICS), FILES, ROCM)),
        silent(INSTINCT),
        silent(plain(PciDevice("0000:05:00.0", "0x1002", "0x74a1", "0x120000", "vfio-pci"))),
        skipped(but(INSTINCT, NODES, unread("/dev"))),
        skipped(but(INSTINCT, PCI, unread("/sys/bus/pci/devices"))),
        skipped(but(plain(RYZEN_GRAPHICS), FILES, unread("torch/version.py"))),
    ],
    "intel-gpu-without-xpu-torch": [
        error(
            plain(PVC),
            "Data Center GPU at 0000:3a:00.0",
            "torch 2.13.0+cu130",
            runs="/opt/venv/bin/python -m pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/xpu",
        ),
        info(plain(ARC)),
        silent(plain(INTEL_GRAPHICS, INTEL_NPU)),
        silent(but(plain(PVC), FILES, XPU)),
        skipped(but(plain(PVC), FILES, unread("torch/version.py"))),
    ],
    "tpu-without-torch-xla": [
        error(
            plain(TPU),
            "1 TPU chip (TPU v5e)",
            "torch 2.13.0+cu130 without torch_xla",
            runs="/opt/venv/bin/python -m pip install torch==2.8.0 'torch_xla[tpu]==2.8.0' "
            "-f https://storage.googleapis.com/libtpu-releases/index.html",
        ),
        error(with_environment(plain(nodes=(VFIO,)), TPU_WORKER_ID="0"), "TPU_WORKER_ID"),
        error(
            but(plain(nodes=(DeviceNode("/dev/accel0", True, True, 0o666, "root", "root"),)), FILES, NO_TORCH),
            "/dev/accel0",
            "neither torch nor torch_xla",
        ),
        silent(plain(GOOGLE_NETWORK_CARD, INTEL_NPU, nodes=(NPU_NODE,))),
        # VFIO without a word of TPUs is a passed-through device of any kind
        silent(plain(nodes=(VFIO,))),
        skipped(but(plain(TPU), "training.packages", unread("importlib.metadata"))),
        skipped(but(plain(nodes=(VFIO,)), "environment", unread())),
    ],
    "tpu-pjrt-device-unset": [
        warning(with_environment(with_xla(plain(TPU)), PJRT_DEVICE="CPU"), "'CPU'", runs="export PJRT_DEVICE=TPU"),
        info(with_xla(plain(TPU))),
        silent(with_environment(with_xla(plain(TPU)), PJRT_DEVICE="TPU")),
        silent(with_tpu_backend(plain(TPU))),
        skipped(but(with_xla(plain(TPU)), "environment", unread())),
    ],
}
