"""Which environment variables may be recorded: those that a check or a rule reads, with values of the right look.

`tests/test_environment_read.py` holds the list to the code: what is asked for stands here, and what stands here is
asked for. docs/privacy.md shows it.
"""

import re
from collections.abc import Mapping

from gpudoctor.knowledge.nccl.variables import table
from gpudoctor.knowledge.pytorch.torch_variables import VARIABLES
from gpudoctor.knowledge.shapes import Shape, kept
from gpudoctor.lazy import lazy_re

READ: dict[Shape, str] = {
    "plain": """
        RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE NODE_RANK GROUP_RANK GROUP_WORLD_SIZE MASTER_PORT
        OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_LOCAL_RANK OMPI_COMM_WORLD_LOCAL_SIZE
        PMI_RANK PMI_SIZE MPI_LOCALRANKID
        SLURM_PROCID SLURM_NTASKS SLURM_LOCALID SLURM_NODEID SLURM_JOB_ID SLURM_STEP_ID SLURM_NNODES
        SLURM_JOB_NUM_NODES SLURM_NTASKS_PER_NODE SLURM_CPUS_PER_TASK SLURM_GPUS_ON_NODE SLURM_GPUS_PER_TASK
        SLURM_GPU_BIND SLURM_TRES_PER_TASK SLURM_TRES_BIND
        TORCHELASTIC_USE_AGENT_STORE OMP_NUM_THREADS PJRT_DEVICE XRT_TPU_CONFIG NVIDIA_DRIVER_CAPABILITIES
        CUDA_DEVICE_ORDER CUDA_LAUNCH_BLOCKING CUDA_PROFILE COMPUTE_PROFILE CUDA_ENABLE_COREDUMP_ON_EXCEPTION
        CUDA_DEVICE_WAITS_ON_EXCEPTION CUDA_FORCE_PTX_JIT CUDA_CACHE_DISABLE PYTORCH_NO_CUDA_MEMORY_CACHING
    """,
    "interfaces": "GLOO_SOCKET_IFNAME TP_SOCKET_IFNAME",
    "hosts": "MASTER_ADDR PET_MASTER_ADDR PET_RDZV_ENDPOINT",
    "devices": """
        CUDA_VISIBLE_DEVICES NVIDIA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES SLURM_JOB_GPUS
        SLURM_STEP_GPUS
    """,
    "path": "TMPDIR CUDA_INJECTION32_PATH CUDA_INJECTION64_PATH",
    "paths": "LD_LIBRARY_PATH LD_PRELOAD",
    "id": "TORCHELASTIC_RUN_ID PET_RDZV_ID",
}
"""By name, what a value of each looks like."""
FAMILIES = lazy_re(r"NCCL_\w+|PET_\w+|TPU_\w+", re.ASCII)
"""Any name of these is looked at: NCCL's for those that nothing reads, torchrun's options, what announces a TPU."""

_OF_FILES = lazy_re(r"\w+_(?:FILE|PATH|LIB|PLUGIN|DIR)|NCCL_GRAPH|NCCL_PROXY_PROFILE")
_OF_HOSTS = lazy_re(r"NCCL_(?:COMM_ID|RAS_ADDR|HOSTID|IB_ADDR_RANGE)")
_OF_INTERFACES = lazy_re(r"NCCL_\w*(?:IFNAME|_HCA)")

_KINDS: dict[str, Shape] = {name: kind for kind, names in READ.items() for name in names.split()}
LONGEST = 32768
"""Linux limits one string to 128 KiB; nothing that we judge is that long."""


def kind_of(name: str) -> Shape | None:
    """What the value of a variable looks like; None where no check reads the variable."""
    if (kind := _KINDS.get(name)) is not None:
        return kind
    if name in _OF_TORCH or FAMILIES.fullmatch(name):
        return _by_its_name(name)
    return None


def _by_its_name(name: str) -> Shape:
    row = table().get(name)
    if row is None or row.kind == "text":
        for pattern, kind in _OTHERS:
            if pattern.fullmatch(name):
                return kind
    return "plain"


_OTHERS: tuple[tuple[re.Pattern[str], Shape], ...] = (
    (_OF_HOSTS, "hosts"),
    (_OF_INTERFACES, "interfaces"),
    (_OF_FILES, "path"),
)


_OF_TORCH = frozenset(name for variable in VARIABLES for name in (variable.name, variable.old_name) if name)


def is_recorded(name: str) -> bool:
    """Whether a variable of this name may stand in a snapshot."""
    return kind_of(name) is not None


def kept_value(name: str, value: str) -> str:
    """The value of a variable as it may be recorded; what does not look as it should is hidden."""
    kind = kind_of(name)
    return kept(kind or "plain", encodable(value[:LONGEST]))


def recorded(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of an environment that a snapshot holds, sorted by name."""
    return {name: kept_value(name, environment[name]) for name in sorted(environment) if is_recorded(name)}


def encodable(value: str) -> str:
    """Bytes that are no UTF-8 arrive as lone surrogates, which JSON cannot carry: they are spelled out."""
    return value.encode("utf-8", "backslashreplace").decode()
