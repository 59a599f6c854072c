"""Which environment variables may be recorded: an allow-list of what training and its libraries read.

Names that look like secrets are never recorded, whatever list they match.
"""

import re
from collections.abc import Mapping

ALLOWED = re.compile(
    r"""(
        CUDA_\w+ | NVIDIA_\w+ | NCCL_\w+ | TORCH_\w+ | TORCHELASTIC_\w+ | PYTORCH_\w+ | CUDNN_\w+ | CUBLAS_\w+
      | GLOO_\w+ | TP_SOCKET_IFNAME
      | UCX_\w+ | FI_\w+ | OMPI_\w+ | OMP_\w+ | MKL_\w+ | GOMP_\w+ | KMP_\w+ | PMI_\w+ | PMIX_\w+
      | SLURM_\w+ | HIP_\w+ | ROCR_\w+ | HSA_\w+ | RCCL_\w+ | ZE_\w+ | SYCL_\w+ | ONEAPI_\w+ | CCL_\w+
      | TPU_\w+ | XLA_\w+ | PJRT_\w+ | XRT_\w+ | GPU_DEVICE_ORDINAL | COMPUTE_PROFILE
      | RANK | LOCAL_RANK | WORLD_SIZE | LOCAL_WORLD_SIZE | NODE_RANK | GROUP_RANK | GROUP_WORLD_SIZE
      | MASTER_ADDR | MASTER_PORT | PET_\w+
      | LD_LIBRARY_PATH | LD_PRELOAD | VIRTUAL_ENV | CONDA_PREFIX | TMPDIR | HF_HOME | TRITON_CACHE_DIR
      | KUBERNETES_SERVICE_HOST | ACCELERATE_\w+ | DS_\w+ | DEEPSPEED_\w+ | HOROVOD_\w+ | RAY_\w+
    )""",
    re.VERBOSE | re.ASCII,
)
SECRET = re.compile(
    r"TOKEN|KEY|SECRET|PASS|PWD|CREDENTIAL|AUTH|COOKIE|SESSION|PRIVATE|JWT|BEARER|CERT|SIGNATURE|WEBHOOK|LICENSE|DSN",
    re.IGNORECASE,
)
"""Also hides NCCL_IB_PKEY, a number: better one harmless variable too few than a key too many."""
NOT_NEEDED = re.compile(
    r"""(
        SLURM_JOB_(NAME|ACCOUNT|COMMENT|RESERVATION|QOS) | SLURM_(CLUSTER_NAME|WCKEY|CONF\w*|PROLOG\w*|SPANK_\w*)
      | \w+_(ARGV|COMMAND|CMDLINE) | \w*URI\w* | RAY_(?!ADDRESS$|EXPERIMENTAL_NOSET_)\w+
    )""",
    re.VERBOSE,
)
"""In a family that is allowed, but about people and projects, or a command line or configuration of the user's own."""
CREDENTIALS = (
    (re.compile(r"(://)[^/\s@]{1,200}@"), r"\1***@"),
    (
        re.compile(
            r"((?<![\w-])--?[\w-]*(?:token|key|secret|passw(?:or)?d|passphrase|credentials?)(?:=|\s+))(?!-)[^\s'\"]+",
            re.IGNORECASE,
        ),
        r"\1***",
    ),
    (
        re.compile(
            r"(\b[A-Za-z][A-Za-z0-9_]*(?:TOKEN|KEY|SECRET|PASSWORD|PASSWD|CREDENTIALS?)=)[^\s'\"]+",
            re.IGNORECASE,
        ),
        r"\1***",
    ),
    (
        re.compile(
            r"\b(?:hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|sk-[A-Za-z0-9_-]{20,}"
            r"|xox[abpr]-[\w-]{10,}|glpat-[\w-]{20,}|nvapi-[\w-]{20,}|AKIA[0-9A-Z]{16}"
            r"|eyJ[\w-]{5,}\.[\w-]{5,}\.[\w-]{5,})"
        ),
        "***",
    ),
)
"""Credentials in a value or command line: in a URL, after an option or name that says so, or of a form known for it."""
MAXIMUM_VALUE_LENGTH = 32768
"""Linux limits one string to 128 KiB; nothing that we judge is that long."""


def is_recorded(name: str) -> bool:
    """Whether a variable of this name may stand in a snapshot."""
    return ALLOWED.fullmatch(name) is not None and SECRET.search(name) is None and NOT_NEEDED.fullmatch(name) is None


def without_credentials(text: str) -> str:
    """A value or command line with "***" in the place of each credential in it."""
    for pattern, replacement in CREDENTIALS:
        text = pattern.sub(replacement, text)
    return text


def recorded(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of an environment that a snapshot holds, sorted by name."""
    return {
        name: without_credentials(_encodable(environment[name][:MAXIMUM_VALUE_LENGTH]))
        for name in sorted(environment)
        if is_recorded(name)
    }


def _encodable(value: str) -> str:
    """Bytes that are no UTF-8 arrive as lone surrogates, which JSON cannot carry: they are spelled out."""
    return value.encode("utf-8", "backslashreplace").decode()
