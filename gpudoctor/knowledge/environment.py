"""Which environment variables may be recorded: an allow-list of what training and its libraries read.

Names that look like secrets are never recorded, whatever list they match.
"""

import re
from collections.abc import Mapping

ALLOWED = re.compile(
    r"""(
        CUDA_\w+ | NVIDIA_\w+ | NCCL_\w+ | TORCH_\w+ | TORCHELASTIC_\w+ | PYTORCH_\w+ | CUDNN_\w+ | CUBLAS_\w+
      | GLOO_\w+ | UCX_\w+ | FI_\w+ | OMPI_\w+ | OMP_\w+ | MKL_\w+ | GOMP_\w+ | KMP_\w+ | PMI_\w+ | PMIX_\w+
      | SLURM_\w+ | HIP_\w+ | ROCR_\w+ | HSA_\w+ | RCCL_\w+ | ZE_\w+ | SYCL_\w+ | ONEAPI_\w+ | CCL_\w+
      | TPU_\w+ | XLA_\w+ | PJRT_\w+ | XRT_\w+ | GPU_DEVICE_ORDINAL | COMPUTE_PROFILE
      | RANK | LOCAL_RANK | WORLD_SIZE | LOCAL_WORLD_SIZE | NODE_RANK | GROUP_RANK | MASTER_ADDR | MASTER_PORT
      | LD_LIBRARY_PATH | LD_PRELOAD | VIRTUAL_ENV | CONDA_PREFIX | TMPDIR | HF_HOME | TRITON_CACHE_DIR
      | KUBERNETES_SERVICE_HOST | ACCELERATE_\w+ | DS_\w+ | DEEPSPEED_\w+ | HOROVOD_\w+ | RAY_\w+
    )""",
    re.VERBOSE,
)
SECRET = re.compile(r"TOKEN|KEY|SECRET|PASS|PASSWD|PASSWORD|CREDENTIAL|AUTH|COOKIE|SESSION|PRIVATE", re.IGNORECASE)
MAXIMUM_VALUE_LENGTH = 32768
"""Linux limits one string to 128 KiB; nothing that we judge is that long."""


def is_recorded(name: str) -> bool:
    """Whether a variable of this name may stand in a snapshot."""
    return ALLOWED.fullmatch(name) is not None and SECRET.search(name) is None


def recorded(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of an environment that a snapshot holds, sorted by name."""
    return {name: environment[name][:MAXIMUM_VALUE_LENGTH] for name in sorted(environment) if is_recorded(name)}
