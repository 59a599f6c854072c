"""Cases of the checks in checks/gpudoctor_checks/pytorch/."""

from typing import Any

import msgspec

from gpudoctor.snapshot import (
    CudaAnswer,
    Library,
    Probe,
    Snapshot,
    absent,
    missing,
    read,
)
from tests.build import but, but_gpu, gpu, h100_node, node, nvml, rtx_4090_node, t4_node, unread
from tests.cases import Case

PYTHON_PROBE = "training.python_probe"
TORCH_PROBE = "training.torch_probe"
FILES = "training.torch_files"
SITE = "/opt/venv/lib/python3.11/site-packages"
BUNDLED_NCCL = f"{SITE}/nvidia/nccl/lib/libnccl.so.2"
OLD_NCCL = "/usr/local/nccl/lib/libnccl.so.2.18.1"
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


def libraries(machine: Snapshot, *found: Library) -> Snapshot:
    return but(machine, "training.libraries", read("worker python_facts", found))


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


def shadowed(name: str, path: str, version: str, bundled: str, bundled_version: str) -> Snapshot:
    """LD_LIBRARY_PATH names a folder with another copy of a library, and torch has it loaded."""
    folder = path.rpartition("/")[0]
    foreign = msgspec.convert(
        {"name": name, "path": path, "origin": "LD_LIBRARY_PATH", "version": version, "found_as": path}, Library
    )
    own = msgspec.convert({"name": name, "path": bundled, "origin": "package", "version": bundled_version}, Library)
    machine = libraries(h100_node(), foreign, own)
    machine = environment(machine, LD_LIBRARY_PATH=f"/opt/hpc/lib:{folder}")
    return torch(machine, loaded_libraries={name: path})


def without_bundled(version: str) -> Snapshot:
    """A torch that brings no NCCL (conda, a build of one's own) and finds an old one."""
    machine = shadowed("nccl", OLD_NCCL, version, BUNDLED_NCCL, "2.29.7")
    return libraries(machine, machine.training.libraries.value[0])


def with_its_own(machine: Snapshot, name: str, path: str) -> Snapshot:
    """The same, but torch's RPATH wins: it has its own copy loaded."""
    return torch(machine, loaded_libraries={name: path})


PASCAL = gpu(1, name=nvml("NVIDIA TITAN X (Pascal)"), compute_capability=nvml((6, 1)))
BESIDE_PASCAL = node((gpu(0), PASCAL))
ONLY_PASCAL = node((gpu(0, name=nvml("NVIDIA TITAN X (Pascal)"), compute_capability=nvml((6, 1))),))
# 8.9 runs the code of 8.6, and 12.1 (DGX Spark) that of 12.0: same major, lower minor.
ADA_AND_SPARK = node((gpu(0, compute_capability=nvml((8, 9))), gpu(1, compute_capability=nvml((12, 1)))))
ORIN = node((gpu(0, name=nvml("Orin"), compute_capability=nvml((8, 7))),))

COMPAT = Library(
    "cuda",
    "/usr/local/cuda-13.0/compat/libcuda.so.580.65.06",
    "LD_LIBRARY_PATH",
    "580.65.06",
    "/usr/local/cuda/compat/libcuda.so.1",
)
WITH_COMPAT = environment(libraries(rtx_4090_node(), COMPAT), LD_LIBRARY_PATH="/usr/local/cuda/compat/:/opt/lib")
COMPAT_FAILS = but(
    WITH_COMPAT, "cuda.visible", read("libcuda", CudaAnswer(804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"))
)
STUB = "/usr/local/cuda/lib64/stubs/libcuda.so.1"
DRIVERS_LIBCUDA = Library("cuda", "/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05", "system", "580.95.05")

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
    # torch-nccl-missing
    Case(
        "torch-nccl-missing",
        fires=torch(h100_node(), distributed_backends=("gloo",), nccl_version=None),
        silent=torch(h100_node(1), distributed_backends=("gloo",), nccl_version=None),
        unread=but(h100_node(), "training.torch", unread()),
        says=("gloo", "8 GPUs"),
    ),
    # nccl-versions-differ
    Case(
        "nccl-versions-differ",
        fires=without_bundled("2.18.1"),
        silent=with_its_own(h100_node(), "nccl", BUNDLED_NCCL),
        unread=without_bundled(""),
        severity="warning",
        says=("2.29.7", "2.18.1", OLD_NCCL),
        commands=("export LD_LIBRARY_PATH=/opt/hpc/lib",),
    ),
    Case(
        "nccl-versions-differ",
        fires=torch(h100_node(), nccl_version=(2, 28, 9), loaded_libraries={"nccl": BUNDLED_NCCL}),
        silent=shadowed("nccl", OLD_NCCL, "2.18.1", BUNDLED_NCCL, "2.29.7"),  # nccl-library-shadowed speaks of it
        severity="info",
        commands=(f"{PIP} install nvidia-nccl-cu13==2.28.9",),
    ),
    # nccl-library-shadowed
    Case(
        "nccl-library-shadowed",
        fires=shadowed("nccl", OLD_NCCL, "2.18.1", BUNDLED_NCCL, "2.29.7"),
        silent=with_its_own(shadowed("nccl", OLD_NCCL, "2.18.1", BUNDLED_NCCL, "2.29.7"), "nccl", BUNDLED_NCCL),
        unread=but(h100_node(), "training.libraries", unread()),
        severity="warning",
        says=("LD_LIBRARY_PATH gives torch libnccl 2.18.1", OLD_NCCL, "2.29.7"),
        commands=("export LD_LIBRARY_PATH=/opt/hpc/lib",),
    ),
    Case(
        # torch could not be imported for it: the order of search speaks.
        "nccl-library-shadowed",
        fires=but(
            shadowed("nccl", OLD_NCCL, "2.18.1", BUNDLED_NCCL, "2.29.7"),
            TORCH_PROBE,
            read("worker", Probe("raised", "import torch", "undefined symbol: ncclCommWindowRegister", 10.0)),
        ),
        severity="warning",
        says=("would give",),
    ),
    # cudnn-library-shadowed
    Case(
        "cudnn-library-shadowed",
        fires=shadowed(
            "cudnn", "/opt/cudnn/lib/libcudnn.so.9.1.0", "9.1.0", f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9", "9.19.0.56"
        ),
        silent=shadowed(
            "cudnn",
            "/opt/cudnn/lib/libcudnn.so.9.19.0",
            "9.19.0",
            f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9",
            "9.19.0.56",
        ),
        unread=but(h100_node(), "training.libraries", unread()),
        severity="warning",
        says=("9.1.0", "/opt/cudnn/lib"),
        commands=("export LD_LIBRARY_PATH=/opt/hpc/lib",),
    ),
    Case(
        "cudnn-library-shadowed",
        fires=torch(
            h100_node(),
            cudnn_version=None,
            cudnn_error="RuntimeError: cuDNN version incompatibility: PyTorch was compiled against (9, 19, 0) "
            "but found runtime version (9, 1, 0)",
        ),
        says=("(9, 1, 0)",),
    ),
    # cuda-compat-on-path
    Case(
        "cuda-compat-on-path",
        fires=COMPAT_FAILS,
        silent=WITH_COMPAT,
        unread=but(WITH_COMPAT, "cuda.visible", unread()),
        says=("580.65.06", "GeForce RTX 4090", "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"),
        commands=("export LD_LIBRARY_PATH=/opt/lib",),
    ),
    # cuda-stubs-on-path
    Case(
        "cuda-stubs-on-path",
        fires=environment(
            libraries(
                h100_node(),
                Library("cuda", "/usr/local/cuda-13.0/lib64/stubs/libcuda.so", "LD_LIBRARY_PATH", "", STUB),
                DRIVERS_LIBCUDA,
            ),
            LD_LIBRARY_PATH="/usr/local/cuda/lib64/stubs",
        ),
        silent=libraries(h100_node(), DRIVERS_LIBCUDA, Library("cuda", STUB, "system")),
        unread=but(h100_node(), "training.libraries", unread()),
        says=(STUB, "LD_LIBRARY_PATH"),
        commands=("unset LD_LIBRARY_PATH",),
    ),
    # pynvml-deprecated
    Case(
        "pynvml-deprecated",
        fires=packages(h100_node(), pynvml="11.5.3"),
        unread=but(h100_node(), "training.packages", unread()),
        severity="warning",
        says=("11.5.3", "13.615.71"),
        commands=(f"{PIP} uninstall -y pynvml", f"{PIP} install --force-reinstall nvidia-ml-py"),
    ),
    Case("pynvml-deprecated", fires=packages(h100_node(), pynvml="13.0.1"), severity="info", says=("13.0.1",)),
    # cuda-launch-blocking
    Case(
        "cuda-launch-blocking",
        fires=environment(h100_node(), CUDA_LAUNCH_BLOCKING="1"),
        silent=environment(h100_node(), CUDA_LAUNCH_BLOCKING="0"),
        unread=but(h100_node(), "environment", unread()),
        severity="warning",
        says=("CUDA_LAUNCH_BLOCKING=1",),
        commands=("unset CUDA_LAUNCH_BLOCKING",),
    ),
    # cuda-debugging-left-on
    Case(
        "cuda-debugging-left-on",
        fires=environment(h100_node(), CUDA_INJECTION64_PATH="/opt/nsight/libinject.so", CUDA_PROFILE="1"),
        silent=environment(h100_node(), CUDA_INJECTION64_PATH="none", CUDA_PROFILE="0", CUDA_CACHE_DISABLE=""),
        unread=but(h100_node(), "environment", unread()),
        severity="warning",
        says=("CUDA_INJECTION64_PATH=/opt/nsight/libinject.so", "CUDA_PROFILE=1"),
        commands=("unset CUDA_INJECTION64_PATH CUDA_PROFILE",),
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
