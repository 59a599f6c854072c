"""Cases of the checks in checks/gpudoctor_checks/pytorch/ that judge shared libraries and the environment."""

import msgspec

from gpudoctor.snapshot import CudaAnswer, Library, Probe, Snapshot
from gpudoctor.testing.cases import error, info, silent, skipped, warning
from gpudoctor.testing.machines import but, h100_node, rtx_4090_node, unread
from tests.checks.pytorch import PIP, SITE, TORCH_PROBE, environment, packages, torch

BUNDLED_NCCL = f"{SITE}/nvidia/nccl/lib/libnccl.so.2"
OLD_NCCL = "/usr/local/nccl/lib/libnccl.so.2.18.1"


def libraries(machine: Snapshot, *found: Library) -> Snapshot:
    return but(machine, "training.libraries", found)


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


COMPAT = Library(
    "cuda",
    "/usr/local/cuda-13.0/compat/libcuda.so.580.65.06",
    "LD_LIBRARY_PATH",
    "580.65.06",
    "/usr/local/cuda/compat/libcuda.so.1",
)
WITH_COMPAT = environment(libraries(rtx_4090_node(), COMPAT), LD_LIBRARY_PATH="/usr/local/cuda/compat/:/opt/lib")
COMPAT_FAILS = but(WITH_COMPAT, "cuda.visible", CudaAnswer(804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"))
STUB = "/usr/local/cuda/lib64/stubs/libcuda.so.1"
DRIVERS_LIBCUDA = Library("cuda", "/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05", "system", "580.95.05")

CASES = {
    "torch-nccl-missing": [
        error(torch(h100_node(), distributed_backends=("gloo",), nccl_version=None), "gloo", "8 GPUs"),
        silent(torch(h100_node(1), distributed_backends=("gloo",), nccl_version=None)),
        skipped("training.torch"),
    ],
    "nccl-versions-differ": [
        warning(without_bundled("2.18.1"), "2.29.7", "2.18.1", OLD_NCCL, runs="export LD_LIBRARY_PATH=/opt/hpc/lib"),
        info(
            torch(h100_node(), nccl_version=(2, 28, 9), loaded_libraries={"nccl": BUNDLED_NCCL}),
            runs=f"{PIP} install nvidia-nccl-cu13==2.28.9",
        ),
        silent(with_its_own(h100_node(), "nccl", BUNDLED_NCCL)),
        # nccl-library-shadowed speaks of it
        silent(shadowed("nccl", OLD_NCCL, "2.18.1", BUNDLED_NCCL, "2.29.7")),
        skipped(without_bundled("")),
    ],
    "nccl-library-shadowed": [
        warning(
            shadowed("nccl", OLD_NCCL, "2.18.1", BUNDLED_NCCL, "2.29.7"),
            "LD_LIBRARY_PATH gives torch libnccl 2.18.1",
            OLD_NCCL,
            "2.29.7",
            runs="export LD_LIBRARY_PATH=/opt/hpc/lib",
        ),
        # torch could not be imported for it: the order of search speaks.
        warning(
            but(
                shadowed("nccl", OLD_NCCL, "2.18.1", BUNDLED_NCCL, "2.29.7"),
                TORCH_PROBE,
                Probe("raised", "import torch", "undefined symbol: ncclCommWindowRegister", 10.0),
            ),
            "would give",
        ),
        silent(with_its_own(shadowed("nccl", OLD_NCCL, "2.18.1", BUNDLED_NCCL, "2.29.7"), "nccl", BUNDLED_NCCL)),
        skipped("training.libraries"),
    ],
    "cudnn-library-shadowed": [
        warning(
            shadowed(
                "cudnn",
                "/opt/cudnn/lib/libcudnn.so.9.1.0",
                "9.1.0",
                f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9",
                "9.19.0.56",
            ),
            "9.1.0",
            "/opt/cudnn/lib",
            runs="export LD_LIBRARY_PATH=/opt/hpc/lib",
        ),
        error(
            torch(
                h100_node(),
                cudnn_version=None,
                cudnn_error="RuntimeError: cuDNN version incompatibility: PyTorch was compiled against (9, 19, 0) "
                "but found runtime version (9, 1, 0)",
            ),
            "(9, 1, 0)",
        ),
        silent(
            shadowed(
                "cudnn",
                "/opt/cudnn/lib/libcudnn.so.9.19.0",
                "9.19.0",
                f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9",
                "9.19.0.56",
            )
        ),
        skipped("training.libraries"),
    ],
    "cuda-compat-on-path": [
        error(
            COMPAT_FAILS,
            "580.65.06",
            "GeForce RTX 4090",
            "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
            runs="export LD_LIBRARY_PATH=/opt/lib",
        ),
        silent(WITH_COMPAT),
        skipped(but(WITH_COMPAT, "cuda.visible", unread())),
    ],
    "cuda-stubs-on-path": [
        error(
            environment(
                libraries(
                    h100_node(),
                    Library("cuda", "/usr/local/cuda-13.0/lib64/stubs/libcuda.so", "LD_LIBRARY_PATH", "", STUB),
                    DRIVERS_LIBCUDA,
                ),
                LD_LIBRARY_PATH="/usr/local/cuda/lib64/stubs",
            ),
            STUB,
            "LD_LIBRARY_PATH",
            runs="unset LD_LIBRARY_PATH",
        ),
        silent(libraries(h100_node(), DRIVERS_LIBCUDA, Library("cuda", STUB, "system"))),
        skipped("training.libraries"),
    ],
    "pynvml-deprecated": [
        warning(
            packages(h100_node(), pynvml="11.5.3"),
            "11.5.3",
            "13.615.71",
            runs=(f"{PIP} uninstall -y pynvml", f"{PIP} install --force-reinstall nvidia-ml-py"),
        ),
        info(packages(h100_node(), pynvml="13.0.1"), "13.0.1"),
        silent(packages(h100_node(), pynvml_utils="11.5.3")),
        skipped("training.packages"),
    ],
    "cuda-launch-blocking": [
        warning(
            environment(h100_node(), CUDA_LAUNCH_BLOCKING="1"),
            "CUDA_LAUNCH_BLOCKING=1",
            runs="unset CUDA_LAUNCH_BLOCKING",
        ),
        silent(environment(h100_node(), CUDA_LAUNCH_BLOCKING="0")),
        skipped("environment"),
    ],
    "cuda-debugging-left-on": [
        warning(
            environment(h100_node(), CUDA_INJECTION64_PATH="/opt/nsight/libinject.so", CUDA_PROFILE="1"),
            "CUDA_INJECTION64_PATH=/opt/nsight/libinject.so",
            "CUDA_PROFILE=1",
            runs="unset CUDA_INJECTION64_PATH CUDA_PROFILE",
        ),
        silent(environment(h100_node(), CUDA_INJECTION64_PATH="none", CUDA_PROFILE="0", CUDA_CACHE_DISABLE="")),
        skipped("environment"),
    ],
}
