"""Cases of the checks in checks/gpudoctor_checks/pytorch/."""

from typing import Any

import msgspec

from gpudoctor.snapshot import (
    CudaAnswer,
    Probe,
    Snapshot,
    absent,
    missing,
    read,
)
from tests.build import but, but_gpu, gpu, h100_node, node, nvml, t4_node, unread
from tests.cases import Case

PYTHON_PROBE = "training.python_probe"
TORCH_PROBE = "training.torch_probe"
FILES = "training.torch_files"
SITE = "/opt/venv/lib/python3.11/site-packages"
PIP = "/opt/venv/bin/python -m pip"
WHEELS = "--index-url https://download.pytorch.org/whl/"


def torch(machine: Snapshot, **changes: Any) -> Snapshot:
    """The machine, with torch answering otherwise."""
    return but(
        machine,
        "training.torch",
        read("import torch", msgspec.structs.replace(machine.training.torch.value, **changes)),
    )


def files(machine: Snapshot, **changes: Any) -> Snapshot:
    """The machine, with another torch on disk."""
    return but(
        machine, FILES, read("version.py", msgspec.structs.replace(machine.training.torch_files.value, **changes))
    )


def ended(outcome: str, step: str, detail: str = "", timeout: float = 10.0, field: str = TORCH_PROBE) -> Snapshot:
    """A machine on which a worker ended otherwise, with the facts that it then owes."""
    probe = msgspec.convert(
        {"outcome": outcome, "step": step, "detail": detail, "timeout_seconds": timeout},
        Probe,
    )
    owed = missing("import torch", "the worker did not say", "timeout" if outcome == "hung" else "failed")
    return but(but(h100_node(), "training.torch", owed), field, read("worker", probe))


def old_driver(machine: Snapshot, driver: str, cuda: tuple[int, int]) -> Snapshot:
    """The machine with an older driver, which torch 2.13 for CUDA 13.0 then does not get along with."""
    machine = but(but(machine, "nvidia.driver_version", nvml(driver)), "nvidia.cuda_version", nvml(cuda))
    machine = but(machine, "cuda.visible", read("libcuda", CudaAnswer(0, "CUDA_SUCCESS", cuda)))
    text = "CUDA initialization: The NVIDIA driver on your system is too old (found version 12040)"
    return torch(machine, cuda_available=False, device_count=0, devices=(), init_error=text)


def environment(machine: Snapshot, **variables: str) -> Snapshot:
    return but(machine, "environment", read("environment", variables))


def packages(machine: Snapshot, **versions: str) -> Snapshot:
    found = {name.replace("_", "-"): version for name, version in versions.items()}
    return but(machine, "training.packages", read("dist-info", machine.training.packages.value | found))


NO_TORCH: Any = absent("sys.path", "this interpreter has no torch")


def without_torch(machine: Snapshot) -> Snapshot:
    for field in (FILES, TORCH_PROBE, "training.torch"):
        machine = but(machine, field, NO_TORCH)
    return machine


def not_asked(machine: Snapshot) -> Snapshot:
    reason: Any = missing("worker torch_facts", "torch was not imported (--no-torch)", "not-asked")
    return but(but(machine, "training.torch", reason), TORCH_PROBE, reason)


PASCAL = gpu(1, name=nvml("NVIDIA TITAN X (Pascal)"), compute_capability=nvml((6, 1)))
BESIDE_PASCAL = node((gpu(0), PASCAL))
ONLY_PASCAL = node((gpu(0, name=nvml("NVIDIA TITAN X (Pascal)"), compute_capability=nvml((6, 1))),))
# 8.9 runs the code of 8.6, and 12.1 (DGX Spark) that of 12.0: same major, lower minor.
ADA_AND_SPARK = node((gpu(0, compute_capability=nvml((8, 9))), gpu(1, compute_capability=nvml((12, 1)))))
ORIN = node((gpu(0, name=nvml("Orin"), compute_capability=nvml((8, 7))),))

CASES = [
    # training-python-broken
    Case(
        "training-python-broken",
        fires=but(
            but(h100_node(), "training.python_version", read("sys.version", "2.7.18")),
            PYTHON_PROBE,
            read(
                "worker", Probe("crashed", "the start of Python", "SyntaxError: invalid syntax (exit status 1)", 10.0)
            ),
        ),
        unread=but(h100_node(), PYTHON_PROBE, unread()),
        says=("/opt/venv/bin/python", "Python 2.7.18", "3.8"),
        commands=("/opt/venv/bin/python --version",),
    ),
    Case(
        "training-python-broken",
        fires=ended("hung", "listing the packages on sys.path", field=PYTHON_PROBE),
        says=("listing the packages on sys.path did not end within 10 s",),
        commands=("gpudoctor check --python /opt/venv/bin/python --timeout 60",),
    ),
    Case(
        "training-python-broken",
        fires=ended("garbled", "the start of Python", "'Loading modules for you'", field=PYTHON_PROBE),
        says=("it said 'Loading modules for you'",),
    ),
    # torch-missing
    Case(
        "torch-missing",
        fires=without_torch(h100_node()),
        unread=but(h100_node(), FILES, unread()),
        says=("/opt/venv/bin/python", "chosen by $VIRTUAL_ENV"),
        commands=(f"{PIP} install --force-reinstall torch {WHEELS}cu130", "/opt/venv/bin/python -m site"),
    ),
    Case(
        "torch-missing",
        fires=without_torch(node(())),
        severity="warning",
        commands=(f"{PIP} install torch",),
    ),
    # torch-import-fails
    Case(
        "torch-import-fails",
        fires=environment(
            ended("raised", "import torch", "ImportError: libtorch_cuda.so: undefined symbol: ncclCommWindowRegister"),
            LD_LIBRARY_PATH="/usr/local/nccl/lib",
        ),
        silent=ended("hung", "import torch"),
        unread=but(h100_node(), TORCH_PROBE, unread()),
        says=("import torch failed", "undefined symbol: ncclCommWindowRegister"),
        commands=("env -u LD_LIBRARY_PATH /opt/venv/bin/python -c 'import torch'",),
    ),
    Case(
        "torch-import-fails",
        fires=ended("crashed", "torch.cuda.is_available()", "killed by SIGSEGV"),
        silent=without_torch(h100_node()),
        says=("torch.cuda.is_available() failed: killed by SIGSEGV",),
        commands=(
            "/opt/venv/bin/python -X faulthandler -c 'import torch; torch.cuda.init()'",
            "ldconfig -p | grep libcuda.so.1",
        ),
    ),
    # torch-import-hangs
    Case(
        "torch-import-hangs",
        fires=ended("hung", "import torch"),
        silent=ended("raised", "import torch", "ImportError: no"),
        unread=but(h100_node(), TORCH_PROBE, unread()),
        says=("import torch from", "10 s"),
        commands=("gpudoctor check --python /opt/venv/bin/python --timeout 60",),
    ),
    Case(
        "torch-import-hangs",
        fires=ended("hung", "torch.cuda.is_available()"),
        says=("torch.cuda.is_available() did not return within 10 s",),
        commands=("sudo dmesg -T | grep -iE 'nvrm|xid' | tail -n 20",),
    ),
    # torch-worker-garbled
    Case(
        "torch-worker-garbled",
        fires=ended("garbled", "import torch", "'Goodbye'"),
        silent=ended("hung", "import torch"),
        unread=but(h100_node(), TORCH_PROBE, unread()),
        says=("import torch", "'Goodbye'"),
    ),
    # torch-cpu-only
    Case(
        "torch-cpu-only",
        fires=packages(files(h100_node(), version="2.13.0+cpu", cuda=None), torchvision="0.28.0+cpu"),
        silent=files(node(()), version="2.13.0+cpu", cuda=None),
        unread=but(h100_node(), FILES, unread()),
        says=("2.13.0+cpu", "8 NVIDIA GPUs"),
        commands=(f"{PIP} install --force-reinstall torch torchvision {WHEELS}cu130",),
    ),
    Case(
        # A driver of CUDA 12.4 gets the wheels of CUDA 12.6, by minor-version compatibility.
        "torch-cpu-only",
        fires=old_driver(files(t4_node(1), version="2.13.0+cpu", cuda=None), "550.54.15", (12, 4)),
        silent=files(h100_node(), cuda=None, xpu="20250000"),
        commands=(f"{PIP} install --force-reinstall torch {WHEELS}cu126",),
    ),
    Case(
        "torch-cpu-only",
        fires=files(ONLY_PASCAL, version="2.13.0+cpu", cuda=None),
        commands=(f"{PIP} install --force-reinstall torch {WHEELS}cu126",),
    ),
    # torch-rocm-on-nvidia
    Case(
        "torch-rocm-on-nvidia",
        fires=files(h100_node(), version="2.13.0+rocm7.0", cuda=None, hip="7.0.51831"),
        unread=but(files(h100_node(), cuda=None, hip="7.0.51831"), "accelerators.pci", unread()),
        says=("2.13.0+rocm7.0", "7.0.51831"),
        commands=(f"{PIP} install --force-reinstall torch {WHEELS}cu130",),
    ),
    # torch-without-gpu-kernels
    Case(
        "torch-without-gpu-kernels",
        fires=ONLY_PASCAL,
        silent=ADA_AND_SPARK,
        unread=torch(h100_node(), arch_list=()),
        says=("TITAN X (Pascal) (6.1)", "sm_75"),
        commands=(f"{PIP} install --force-reinstall torch {WHEELS}cu126",),
    ),
    Case(
        "torch-without-gpu-kernels",
        fires=BESIDE_PASCAL,
        silent=torch(ONLY_PASCAL, arch_list=("sm_75", "compute_60")),  # PTX, which the driver compiles
        severity="warning",
        commands=("export CUDA_VISIBLE_DEVICES=GPU-00000000-1111-2222-3333-444444444444",),
    ),
    Case(
        # torch cannot enumerate anything, so NVML's GPUs count; and an Orin runs no sm_80 code.
        "torch-without-gpu-kernels",
        fires=torch(ORIN, cuda_available=False, device_count=0, devices=()),
        silent=torch(h100_node(), cuda_version=None, hip_version="7.0", arch_list=()),
        unread=torch(
            but_gpu(h100_node(), 0, compute_capability=unread()), cuda_available=False, device_count=0, devices=()
        ),
        says=("8.7",),
    ),
    # driver-too-old-for-torch
    Case(
        "driver-too-old-for-torch",
        fires=old_driver(h100_node(), "550.54.15", (12, 4)),
        # A compatibility package on a data-centre GPU makes up for the driver: torch works.
        silent=but(h100_node(), "nvidia.driver_version", nvml("550.54.15")),
        unread=but(h100_node(), "nvidia.driver_version", unread()),
        says=("2.13.0+cu130", "550.54.15", "580", "13.0", "12.4"),
        commands=(f"{PIP} install --force-reinstall torch {WHEELS}cu126",),
    ),
    Case(
        # Below every floor: only a newer driver helps, and not the newest. From a real machine: TITAN X, driver 390.48.
        "driver-too-old-for-torch",
        fires=old_driver(ONLY_PASCAL, "390.48", (9, 1)),
        commands=(f"{PIP} install --force-reinstall torch {WHEELS}cu126",),
        silent=old_driver(files(t4_node(), cuda="12.4"), "525.60.13", (12, 0)),
        unread=files(h100_node(), cuda="15.1"),
    ),
    Case(
        "driver-too-old-for-torch",
        fires=old_driver(files(t4_node(), cuda="12.1"), "470.256.02", (11, 4)),
        silent=files(h100_node(), cuda=None),
        says=("525", "470.256.02", "11.4"),
        commands=(f"{PIP} install --force-reinstall torch {WHEELS}cu118",),
    ),
    # cuda-minor-newer-than-driver
    Case(
        "cuda-minor-newer-than-driver",
        fires=files(h100_node(), version="2.15.0+cu132", cuda="13.2"),
        silent=files(h100_node(), cuda="12.8"),
        unread=but(h100_node(), "nvidia.cuda_version", unread()),
        severity="info",
        says=("13.2", "580.95.05", "13.0"),
    ),
    Case(
        "cuda-minor-newer-than-driver",
        fires=old_driver(files(h100_node(), cuda="12.8"), "535.183.01", (12, 2)),
        silent=old_driver(h100_node(), "550.54.15", (12, 4)),  # another major: the driver is too old
        severity="info",
    ),
    # torch-cuda-unavailable
    Case(
        "torch-cuda-unavailable",
        fires=but(
            torch(h100_node(), cuda_available=False, device_count=0, devices=(), init_error="Error 802: not ready"),
            "cuda.visible",
            read("libcuda", CudaAnswer(802, "CUDA_ERROR_SYSTEM_NOT_READY")),
        ),
        silent=old_driver(h100_node(), "550.54.15", (12, 4)),
        unread=but(h100_node(), "training.torch", unread()),
        says=("NVML sees 8", "Error 802"),
        commands=("sudo systemctl enable --now nvidia-fabricmanager",),
    ),
    Case(
        "torch-cuda-unavailable",
        fires=torch(h100_node(1), cuda_available=False, device_count=0, devices=()),
        silent=but(
            torch(h100_node(), cuda_available=False, device_count=0, devices=()),
            "cuda.visible",
            read("libcuda", CudaAnswer(100, "CUDA_ERROR_NO_DEVICE")),  # CUDA_VISIBLE_DEVICES hides every GPU
        ),
        commands=("/opt/venv/bin/python -c 'import torch; torch.cuda.init()'",),
    ),
    # torch-mixed-versions
    Case(
        "torch-mixed-versions",
        fires=but(
            packages(h100_node(), torchvision="0.27.0", torchaudio="2.13.0"),
            "training.torch_pins",
            read("METADATA", {"torchvision": "2.12.1", "torchaudio": "2.13.0"}),
        ),
        silent=but(
            packages(h100_node(), torchvision="0.28.0+cu130"),
            "training.torch_pins",
            read("METADATA", {"torchvision": "2.13.0"}),
        ),
        unread=but(h100_node(), "training.torch_pins", unread()),
        severity="warning",
        says=("torchvision 0.27.0", "2.12.1", "2.13.0+cu130"),
        commands=(f"{PIP} install --upgrade --force-reinstall torch==2.13.0 torchvision {WHEELS}cu130", f"{PIP} check"),
    ),
    Case(
        "torch-mixed-versions",
        fires=but(
            packages(h100_node(), torchvision="0.28.0+cu126"),
            "training.torch_pins",
            read("METADATA", {"torchvision": "2.13.0"}),
        ),
        severity="warning",
        says=("another CUDA",),
    ),
    # torch-import-slow
    Case(
        "torch-import-slow",
        fires=torch(h100_node(), import_seconds=7.4),
        silent=torch(h100_node(), import_seconds=4.9),
        unread=but(h100_node(), "training.torch", unread()),
        severity="info",
        says=("7.4 s", SITE),
        commands=("time /opt/venv/bin/python -c 'import torch'",),
    ),
]
