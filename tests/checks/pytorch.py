"""Cases of the checks in checks/gpudoctor_checks/pytorch/."""

from typing import Any

import msgspec

from gpudoctor.snapshot import CudaAnswer, PciDevice, Probe, Snapshot, absent, missing
from gpudoctor.testing.cases import error, info, silent, skipped, warning
from gpudoctor.testing.machines import but, but_gpu, gpu, h100_node, node, t4_node, unread

PYTHON_PROBE = "training.python_probe"
TORCH_PROBE = "training.torch_probe"
FILES = "training.torch_files"
SITE = "/opt/venv/lib/python3.11/site-packages"
PIP = "/opt/venv/bin/python -m pip"
WHEELS = "--index-url https://download.pytorch.org/whl/"


def torch(machine: Snapshot, **changes: Any) -> Snapshot:
    """The machine, with torch answering otherwise."""
    return but(machine, "training.torch", msgspec.structs.replace(machine.training.torch.value, **changes))


def files(machine: Snapshot, **changes: Any) -> Snapshot:
    """The machine, with another torch on disk."""
    return but(machine, FILES, msgspec.structs.replace(machine.training.torch_files.value, **changes))


def ended(outcome: str, step: str, detail: str = "", timeout: float = 10.0, field: str = TORCH_PROBE) -> Snapshot:
    """A machine on which a worker ended otherwise, with the facts that it then owes."""
    probe = msgspec.convert(
        {"outcome": outcome, "step": step, "detail": detail, "timeout_seconds": timeout},
        Probe,
    )
    owed = missing("import torch", "the worker did not say", "timeout" if outcome == "hung" else "failed")
    return but(but(h100_node(), "training.torch", owed), field, probe)


def old_driver(machine: Snapshot, driver: str, cuda: tuple[int, int]) -> Snapshot:
    """The machine with an older driver, which torch 2.13 for CUDA 13.0 then does not get along with."""
    machine = but(but(machine, "nvidia.driver_version", driver), "nvidia.cuda_version", cuda)
    machine = but(machine, "cuda.visible", CudaAnswer(0, "CUDA_SUCCESS", cuda))
    text = "CUDA initialization: The NVIDIA driver on your system is too old (found version 12040)"
    return torch(machine, cuda_available=False, device_count=0, devices=(), init_error=text)


def environment(machine: Snapshot, **variables: str) -> Snapshot:
    return but(machine, "environment", variables)


def packages(machine: Snapshot, **versions: str) -> Snapshot:
    found = {name.replace("_", "-"): version for name, version in versions.items()}
    return but(machine, "training.packages", machine.training.packages.value | found)


NO_TORCH: Any = absent("sys.path", "this interpreter has no torch")


def without_torch(machine: Snapshot) -> Snapshot:
    for field in (FILES, TORCH_PROBE, "training.torch"):
        machine = but(machine, field, NO_TORCH)
    return machine


def not_asked(machine: Snapshot) -> Snapshot:
    reason: Any = missing("worker torch_facts", "torch was not imported (--no-torch)", "not-asked")
    return but(but(machine, "training.torch", reason), TORCH_PROBE, reason)


PASCAL = gpu(1, name="NVIDIA TITAN X (Pascal)", compute_capability=(6, 1))
BESIDE_PASCAL = node((gpu(0), PASCAL))
ONLY_PASCAL = node((gpu(0, name="NVIDIA TITAN X (Pascal)", compute_capability=(6, 1)),))
# 8.9 runs the code of 8.6, and 12.1 (DGX Spark) that of 12.0: same major, lower minor.
ADA_AND_SPARK = node((gpu(0, compute_capability=(8, 9)), gpu(1, compute_capability=(12, 1))))
ORIN = node((gpu(0, name="Orin", compute_capability=(8, 7)),))

AMD_CARD = (PciDevice("0000:c1:00.0", "0x1002", "0x74a1", "0x120000", "amdgpu"),)

CASES = {
    "training-python-broken": [
        error(
            but(
                but(h100_node(), "training.python_version", "2.7.18"),
                PYTHON_PROBE,
                Probe("crashed", "the start of Python", "SyntaxError: invalid syntax (exit status 1)", 10.0),
            ),
            "/opt/venv/bin/python",
            "Python 2.7.18",
            "3.8",
            runs="/opt/venv/bin/python --version",
        ),
        error(
            ended("hung", "listing the packages on sys.path", field=PYTHON_PROBE),
            "listing the packages on sys.path did not end within 10 s",
            runs="gpudoctor check --python /opt/venv/bin/python --timeout 60",
        ),
        error(
            ended("garbled", "the start of Python", "'Loading modules for you'", field=PYTHON_PROBE),
            "it said 'Loading modules for you'",
        ),
        silent(but(h100_node(), "training.python_version", "3.8.0")),
        skipped(but(h100_node(), PYTHON_PROBE, unread())),
    ],
    "torch-missing": [
        error(
            without_torch(h100_node()),
            "/opt/venv/bin/python",
            "chosen by $VIRTUAL_ENV",
            runs=(f"{PIP} install --force-reinstall torch {WHEELS}cu130", "/opt/venv/bin/python -m site"),
        ),
        error(without_torch(node(())), runs=f"{PIP} install torch"),
        silent(files(h100_node(), version="2.13.0+cpu", cuda=None)),
        skipped(but(h100_node(), FILES, unread())),
    ],
    "torch-import-fails": [
        # What we asked amiss is no fault of the torch that was asked.
        silent(ended("unread", "reading torch's build", "TypeError: 'int' object is not iterable")),
        error(
            environment(
                ended(
                    "raised", "import torch", "ImportError: libtorch_cuda.so: undefined symbol: ncclCommWindowRegister"
                ),
                LD_LIBRARY_PATH="/usr/local/nccl/lib",
            ),
            "import torch failed",
            "undefined symbol: ncclCommWindowRegister",
            runs="env -u LD_LIBRARY_PATH /opt/venv/bin/python -c 'import torch'",
        ),
        error(
            ended("crashed", "torch.cuda.is_available()", "killed by SIGSEGV"),
            "torch.cuda.is_available() failed: killed by SIGSEGV",
            runs=(
                "/opt/venv/bin/python -X faulthandler -c 'import torch; torch.cuda.init()'",
                "ldconfig -p | grep libcuda.so.1",
            ),
        ),
        silent(ended("hung", "import torch")),
        skipped(but(h100_node(), TORCH_PROBE, unread())),
    ],
    "torch-import-hangs": [
        warning(
            ended("hung", "import torch"),
            "import torch from",
            "10 s",
            runs="gpudoctor check --python /opt/venv/bin/python --timeout 60",
        ),
        error(ended("hung", "import torch", "it is stuck in the kernel"), "(it is stuck in the kernel)"),
        error(
            ended("hung", "torch.cuda.is_available()"),
            "torch.cuda.is_available() did not return within 10 s",
            runs="sudo dmesg -T | grep -iE 'nvrm|xid' | tail -n 20",
        ),
        silent(ended("raised", "import torch", "ImportError: no")),
        skipped(but(h100_node(), TORCH_PROBE, unread())),
    ],
    "torch-worker-garbled": [
        error(ended("garbled", "import torch", "'Goodbye'"), "import torch", "'Goodbye'"),
        silent(ended("hung", "import torch")),
        skipped(but(h100_node(), TORCH_PROBE, unread())),
    ],
    "torch-cpu-only": [
        error(
            packages(files(h100_node(), version="2.13.0+cpu", cuda=None), torchvision="0.28.0+cpu"),
            "2.13.0+cpu",
            "8 NVIDIA GPUs",
            runs=f"{PIP} install --force-reinstall torch torchvision {WHEELS}cu130",
        ),
        # A driver of CUDA 12.4 gets the wheels of CUDA 12.6, by minor-version compatibility.
        error(
            old_driver(files(t4_node(1), version="2.13.0+cpu", cuda=None), "550.54.15", (12, 4)),
            runs=f"{PIP} install --force-reinstall torch {WHEELS}cu126",
        ),
        silent(files(node(()), version="2.13.0+cpu", cuda=None)),
        skipped(but(h100_node(), FILES, unread())),
    ],
    "torch-rocm-on-nvidia": [
        error(
            files(h100_node(), version="2.13.0+rocm7.0", cuda=None, hip="7.0.51831"),
            "2.13.0+rocm7.0",
            "7.0.51831",
            runs=f"{PIP} install --force-reinstall torch {WHEELS}cu130",
        ),
        silent(but(files(h100_node(), cuda=None, hip="7.0.51831"), "accelerators.pci", AMD_CARD)),
        skipped(but(files(h100_node(), cuda=None, hip="7.0.51831"), "accelerators.pci", unread())),
    ],
    "torch-without-gpu-kernels": [
        warning(BESIDE_PASCAL, runs="export CUDA_VISIBLE_DEVICES=GPU-00000000-1111-2222-3333-444444444444"),
        # torch cannot enumerate anything, so NVML's GPUs count; and an Orin runs no sm_80 code.
        error(torch(ORIN, cuda_available=False, device_count=0, devices=()), "8.7"),
        silent(ADA_AND_SPARK),
        # PTX, which the driver compiles
        silent(torch(ONLY_PASCAL, arch_list=("sm_75", "compute_60"))),
        silent(torch(h100_node(), cuda_version=None, hip_version="7.0", arch_list=())),
        skipped(torch(h100_node(), arch_list=())),
        skipped(
            torch(
                but_gpu(h100_node(), 0, compute_capability=unread()), cuda_available=False, device_count=0, devices=()
            )
        ),
    ],
    "driver-too-old-for-torch": [
        error(
            old_driver(h100_node(), "550.54.15", (12, 4)),
            "2.13.0+cu130",
            "550.54.15",
            "580",
            "13.0",
            "12.4",
            runs=f"{PIP} install --force-reinstall torch {WHEELS}cu126",
        ),
        # Below every floor: only a newer driver helps, and not the newest. From a real machine: TITAN X, driver 390.48.
        error(old_driver(ONLY_PASCAL, "390.48", (9, 1)), runs=f"{PIP} install --force-reinstall torch {WHEELS}cu126"),
        # A compatibility package on a data-centre GPU makes up for the driver: torch works.
        silent(but(h100_node(), "nvidia.driver_version", "550.54.15")),
        silent(files(h100_node(), cuda=None)),
        skipped("nvidia.driver_version", files(h100_node(), cuda="15.1")),
    ],
    "cuda-minor-newer-than-driver": [
        info(files(h100_node(), version="2.15.0+cu132", cuda="13.2"), "13.2", "580.95.05", "13.0"),
        info(old_driver(files(h100_node(), cuda="12.8"), "535.183.01", (12, 2))),
        silent(files(h100_node(), cuda="12.8")),
        # another major: the driver is too old
        silent(old_driver(h100_node(), "550.54.15", (12, 4))),
        skipped("nvidia.cuda_version"),
    ],
    "torch-cuda-unavailable": [
        error(
            but(
                torch(h100_node(), cuda_available=False, device_count=0, devices=(), init_error="Error 802: not ready"),
                "cuda.visible",
                CudaAnswer(802, "CUDA_ERROR_SYSTEM_NOT_READY"),
            ),
            "NVML sees 8",
            "Error 802",
            runs="sudo systemctl enable --now nvidia-fabricmanager",
        ),
        error(
            torch(h100_node(1), cuda_available=False, device_count=0, devices=()),
            runs="/opt/venv/bin/python -c 'import torch; torch.cuda.init()'",
        ),
        # CUDA_VISIBLE_DEVICES hides every GPU
        silent(
            but(
                torch(h100_node(), cuda_available=False, device_count=0, devices=()),
                "cuda.visible",
                CudaAnswer(100, "CUDA_ERROR_NO_DEVICE"),
            )
        ),
        skipped("training.torch"),
    ],
    "torch-mixed-versions": [
        warning(
            but(
                packages(h100_node(), torchvision="0.27.0", torchaudio="2.13.0"),
                "training.torch_pins",
                {"torchvision": "2.12.1", "torchaudio": "2.13.0"},
            ),
            "torchvision 0.27.0",
            "2.12.1",
            "2.13.0+cu130",
            runs=(f"{PIP} install --upgrade --force-reinstall torch==2.13.0 torchvision {WHEELS}cu130", f"{PIP} check"),
        ),
        warning(
            but(packages(h100_node(), torchvision="0.28.0+cu126"), "training.torch_pins", {"torchvision": "2.13.0"}),
            "another CUDA",
        ),
        silent(
            but(packages(h100_node(), torchvision="0.28.0+cu130"), "training.torch_pins", {"torchvision": "2.13.0"})
        ),
        skipped("training.torch_pins"),
    ],
    "torch-import-slow": [
        info(torch(h100_node(), import_seconds=7.4), "7.4 s", SITE, runs="time /opt/venv/bin/python -c 'import torch'"),
        silent(torch(h100_node(), import_seconds=4.9)),
        skipped("training.torch"),
    ],
}
