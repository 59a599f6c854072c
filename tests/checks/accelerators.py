"""Cases of the checks in checks/gpudoctor_checks/accelerators/."""

from gpudoctor.snapshot import DeviceNode, PciDevice, Snapshot, TorchFiles, absent, read
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
    return but(but(machine, PCI, read("/sys/bus/pci/devices", devices)), NODES, read("/dev", nodes))


def with_xla(machine: Snapshot) -> Snapshot:
    return but(machine, "training.packages", read("importlib.metadata", {"torch": "2.9.0", "torch-xla": "2.9.0"}))


def with_tpu_backend(machine: Snapshot) -> Snapshot:
    return but(machine, "training.packages", read("importlib.metadata", {"torch": "2.13.0", "torch_tpu": "0.2"}))


def with_environment(machine: Snapshot, **variables: str) -> Snapshot:
    return but(machine, "environment", read("environment of gpudoctor", variables))


INSTINCT = plain(MI300X, nodes=(KFD,))
CASES = [
    info("accelerator-missing", plain(INTEL_GRAPHICS, INTEL_NPU, nodes=(NPU_NODE,))),  # a laptop
    info("accelerator-missing", plain()),  # Jetson
    info("accelerator-missing", plain(GOOGLE_NETWORK_CARD, VIRTUAL_VGA)),  # a Google Cloud VM without TPU
    silent("accelerator-missing", plain(MI300X), but(plain(), "cuda", h100_node(1).cuda), plain(TPU)),
    skipped("accelerator-missing", but(plain(), PCI, unread("/sys/bus/pci/devices"))),
    # WSL2: the GPU is no PCI device, and NVML did not answer
    skipped(
        "accelerator-missing",
        but(plain(nodes=(DeviceNode("/dev/dxg", True, True, 0o666, "root", "root"),)), "nvidia.gpus", unread("nvml")),
    ),
    error(
        "amd-gpu-without-rocm-torch",
        INSTINCT,
        "0000:05:00.0",
        "torch 2.13.0+cu130 is not built for ROCm",
        runs="/opt/venv/bin/python -m pip install --force-reinstall torch "
        "--index-url https://download.pytorch.org/whl/rocm7.2",
    ),
    error("amd-gpu-without-rocm-torch", but(INSTINCT, FILES, NO_TORCH), "no torch is installed"),
    info("amd-gpu-without-rocm-torch", plain(RYZEN_GRAPHICS)),
    silent("amd-gpu-without-rocm-torch", but(INSTINCT, FILES, read("torch/version.py", ROCM))),
    # the graphics of a Ryzen beside an NVIDIA GPU
    silent(
        "amd-gpu-without-rocm-torch",
        but(h100_node(1), PCI, read("/sys/bus/pci/devices", (*h100_node(1).accelerators.pci.value, RYZEN_GRAPHICS))),
    ),
    skipped("amd-gpu-without-rocm-torch", but(INSTINCT, FILES, unread("torch/version.py"))),
    skipped("amd-gpu-without-rocm-torch", but(INSTINCT, PCI, unread("/sys/bus/pci/devices"))),
    error("amd-gpu-driver-missing", plain(MI300X_UNBOUND), "0000:05:00.0 (no driver)", runs="sudo modprobe amdgpu"),
    error(
        "amd-gpu-driver-missing",
        plain(MI300X, nodes=(DeviceNode("/dev/kfd", False, False, 0o660, "root", "render"),)),
        "mode 0660, root:render",
        runs="sudo usermod -aG render,video $USER",
    ),
    error("amd-gpu-driver-missing", plain(MI300X), "/dev/kfd does not exist"),
    info("amd-gpu-driver-missing", plain(RYZEN_GRAPHICS)),  # a Ryzen laptop in a container, without ROCm
    # ... and one whose owner installed ROCm's torch, so means to use it
    error("amd-gpu-driver-missing", but(plain(RYZEN_GRAPHICS), FILES, read("torch/version.py", ROCM))),
    silent("amd-gpu-driver-missing", INSTINCT),
    silent("amd-gpu-driver-missing", plain(PciDevice("0000:05:00.0", "0x1002", "0x74a1", "0x120000", "vfio-pci"))),
    skipped("amd-gpu-driver-missing", but(INSTINCT, NODES, unread("/dev"))),
    skipped("amd-gpu-driver-missing", but(INSTINCT, PCI, unread("/sys/bus/pci/devices"))),
    skipped("amd-gpu-driver-missing", but(plain(RYZEN_GRAPHICS), FILES, unread("torch/version.py"))),
    error(
        "intel-gpu-without-xpu-torch",
        plain(PVC),
        "Data Center GPU at 0000:3a:00.0",
        "torch 2.13.0+cu130",
        runs="/opt/venv/bin/python -m pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/xpu",
    ),
    info("intel-gpu-without-xpu-torch", plain(ARC)),
    silent("intel-gpu-without-xpu-torch", plain(INTEL_GRAPHICS, INTEL_NPU)),
    silent("intel-gpu-without-xpu-torch", but(plain(PVC), FILES, read("torch/version.py", XPU))),
    skipped("intel-gpu-without-xpu-torch", but(plain(PVC), FILES, unread("torch/version.py"))),
    error(
        "tpu-without-torch-xla",
        plain(TPU),
        "1 TPU chip (TPU v5e)",
        "torch 2.13.0+cu130 without torch_xla",
        runs="/opt/venv/bin/python -m pip install torch==2.8.0 'torch_xla[tpu]==2.8.0' "
        "-f https://storage.googleapis.com/libtpu-releases/index.html",
    ),
    error("tpu-without-torch-xla", with_environment(plain(nodes=(VFIO,)), TPU_WORKER_ID="0"), "TPU_WORKER_ID"),
    error(
        "tpu-without-torch-xla",
        but(plain(nodes=(DeviceNode("/dev/accel0", True, True, 0o666, "root", "root"),)), FILES, NO_TORCH),
        "/dev/accel0",
        "neither torch nor torch_xla",
    ),
    silent("tpu-without-torch-xla", plain(GOOGLE_NETWORK_CARD, INTEL_NPU, nodes=(NPU_NODE,))),
    # VFIO without a word of TPUs is a passed-through device of any kind
    silent("tpu-without-torch-xla", plain(nodes=(VFIO,))),
    skipped("tpu-without-torch-xla", but(plain(TPU), "training.packages", unread("importlib.metadata"))),
    skipped("tpu-without-torch-xla", but(plain(nodes=(VFIO,)), "environment", unread())),
    warning(
        "tpu-pjrt-device-unset",
        with_environment(with_xla(plain(TPU)), PJRT_DEVICE="CPU"),
        "'CPU'",
        runs="export PJRT_DEVICE=TPU",
    ),
    info("tpu-pjrt-device-unset", with_xla(plain(TPU))),
    silent("tpu-pjrt-device-unset", with_environment(with_xla(plain(TPU)), PJRT_DEVICE="TPU")),
    silent("tpu-pjrt-device-unset", with_tpu_backend(plain(TPU))),
    skipped("tpu-pjrt-device-unset", but(with_xla(plain(TPU)), "environment", unread())),
]
