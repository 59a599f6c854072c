"""Which parts of a path may be handed on: folders of every machine, packages, libraries. The rest is somebody's."""

import re
import sys
from collections.abc import Callable, Iterator, Sequence

from gpudoctor.lazy import lazy_re

OF_THE_KERNEL = lazy_re(r"/(?:proc|sys|dev)(?!/shm/|/mapper/|/mqueue/|/hugepages/)(?:/|$)")
"""Where the kernel and its drivers give the names."""
PARTS = frozenset(
    """
    bin boot dev etc home lib lib32 lib64 libexec local media mnt opt proc root run sbin share snap src srv sys tmp usr
    var log spool shm include Users users people group groups u data scratch work project projects shared nfs gpfs
    lustre fsx efs fast ssd nvme workspace Library System Applications Program Windows System32 mntc c wsl
    cache .cache .local .config .nccl.conf nccl.conf nccl .conda .venv .virtualenvs .pyenv .triton .nv .ssh
    ld.so.cache ld.so.conf ld.so.conf.d ld.so.preload modprobe.d passwd os-release hosts resolv.conf nsswitch.conf
    conda miniconda miniconda3 anaconda anaconda3 miniforge3 mambaforge envs env venv virtualenv virtualenvs pyenv pkgs
    versions shims site-packages dist-packages python __pycache__ huggingface hub triton torch torch_extensions
    torchinductor ComputeCache nvidia cuda nccl cudnn cublas driver drivers gpus stubs compat targets extras CUPTI
    kernels inductor hpcx ucx ompi openmpi mpi plugins net nvidia-mps nvidia-persistenced nvidia-fabricmanager
    nvidia-topologyd docker containerd containers kubelet slurm systemd system user.slice system.slice kubepods.slice
    init.scope modules kernel extra updates dkms x86_64-linux-gnu aarch64-linux-gnu x86_64-linux sbsa-linux gnu
    file files logs runs checkpoints models train test
    """.split()  # noqa: SIM905 - as a text it can be read and changed
)
KNOWN = lazy_re(
    r"\d+|(?:user|node|ip|mac|path|mail|serial|domain|nodes|job)-\d+(?:\.\w{1,12})?|\.{1,2}|~|\*{3}"
    r"|(?:python|pypy|cuda|torch|nccl|cudnn|nvidia|tensorrt|hpcx|gcc)[-_]?[0-9][\w.+-]*"
    r"|lib(?:cuda|nvidia|nvoptix|nccl|cudart|cudnn|cublas|cupti|nv|torch|c10|ibverbs|mlx|rdma|mpi|gomp|omp|stdc|gcc|rccl"
    r"|hip|amdhip|ze_loader|fabric|jemalloc|tcmalloc)[\w.+-]*\.so[.0-9]*"
    r"|(?:job|step|task|uid)_?[0-9]+|nccl-\w{0,6}",
    re.ASCII,
)
PACKAGES = frozenset(
    """
    torch torchvision torchaudio torchgen functorch nvidia triton numpy lightning lightning_fabric pytorch_lightning
    accelerate deepspeed transformers datasets xformers flash_attn apex ray jax jaxlib torch_xla gpudoctor
    gpudoctor_checks msgspec psutil pip setuptools
    """.split()  # noqa: SIM905
)
"""Below one of these, in site-packages, all names are its authors'."""
INSTALLED = ("site-packages", "dist-packages")
LIBRARY = lazy_re(r"python3?\.?\d*")
PROGRAM_FOLDERS = (["usr", "bin"], ["usr", "sbin"], ["bin"], ["sbin"], ["usr", "local", "bin"])
PROGRAMS = lazy_re(r"(?:python|pypy|pip)[\d.]*|torchrun|accelerate|deepspeed|gpudoctor|nvidia-[a-z-]{2,30}|srun|mpirun")
SOURCES = (".py", ".pyx", ".cu", ".cuh", ".cpp", ".cc", ".c", ".h", ".hpp")
"""What a program of the user's is called stays: stacks say nothing without."""
ENDINGS = lazy_re(
    r"\.(?:so(?:\.\d+)*|pt|pth|bin|ckpt|safetensors|json|ya?ml|toml|xml|txt|log|out|err|csv|parquet|arrow|tar|gz|zip|conf|h5"
    r"|npy|npz|whl|sock)$",
    re.ASCII,
)
PATH = lazy_re(r"(?<![\w./~%\])}*-])(?:~(?=/))?(?:/[^/\\\s:;,\"'<>|()\[\]{}*`=?&#]+)+")
"""An absolute path in a text."""


def shown(path: str, pseudonym: Callable[[str], str]) -> str:
    """A path of which only known parts are left; `pseudonym` names the others."""
    return path if OF_THE_KERNEL.match(path) else "/".join(_parts(path.split("/"), pseudonym))


def _parts(parts: Sequence[str], pseudonym: Callable[[str], str]) -> Iterator[str]:
    for at, part in enumerate(parts):
        if at and _names_code(parts[at - 1], part):
            yield from parts[at:]
            return
        yield part if _is_known(parts, at) else pseudonym(part) + _ending(part)


def _names_code(folder: str, part: str) -> bool:
    if folder in INSTALLED:
        return part.partition("-")[0] in PACKAGES
    return LIBRARY.fullmatch(folder) is not None and part.removesuffix(".py") in sys.stdlib_module_names


def _is_known(parts: Sequence[str], at: int) -> bool:
    part = parts[at]
    if not part or part in PARTS or KNOWN.fullmatch(part) or PROGRAMS.fullmatch(part):
        return True
    if at != len(parts) - 1:
        return False
    return part.endswith(SOURCES) or list(parts[1:-1]) in PROGRAM_FOLDERS


def _ending(part: str) -> str:
    match = ENDINGS.search(part)
    return match[0] if match else ""
