"""Variables that are set without the text saying so."""

import re
from collections.abc import Sequence

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import LintFacts, SbatchOption

PREFIXES = (
    "SLURM_", "SLURMD_", "PET_", "OMPI_", "PMI_", "PMIX_", "MPI_", "MPIEXEC_", "MV2_COMM_WORLD_", "PALS_", "HYDRA_",
    "SKYPILOT_", "DSTACK_", "VC_", "AZ_", "AZUREML_", "SM_", "TORCHX_", "KUBERNETES_", "TORCHELASTIC_", "PBS_", "LSB_",
    "LSF_", "SGE_", "COBALT_", "FLUX_", "RAY_", "DET_", "BASH_", "XDG_", "CONDA_", "APPTAINER_", "SINGULARITY_",
    "BATCH_", "AWS_BATCH_", "RUNPOD_", "VAST_", "LEPTON_", "BEAKER_", "NGC_", "HOROVOD_", "CLUSTER_SPEC", "TPU_",
)  # fmt: skip
"""Set by the scheduler, the operator or the launcher, each in its own name space."""

NAMES = frozenset(
    """
    HOSTNAME HOST HOME USER LOGNAME UID EUID PPID PWD OLDPWD PATH SHELL SHLVL TERM LANG LC_ALL TMPDIR TMP TEMP RANDOM
    SRANDOM SECONDS LINENO EPOCHSECONDS EPOCHREALTIME BASHPID GROUPS HOSTTYPE MACHTYPE OSTYPE IFS OPTARG OPTIND
    FUNCNAME PIPESTATUS REPLY LD_LIBRARY_PATH PYTHONPATH CPATH LIBRARY_PATH VIRTUAL_ENV EDITOR DISPLAY MAIL COLUMNS
    LINES JOB_COMPLETION_INDEX JOB_ID JOB_NAME PE_HOSTFILE NHOSTS NSLOTS SCRATCH WORK CUDA_HOME CUDA_PATH
    NVIDIA_VISIBLE_DEVICES MPI_LOCALRANKID MPI_LOCALNRANKS DLWS_NUM_WORKER DLWS_ROLE_IDX ARNOLD_WORKER_NUM ARNOLD_ID
    ARNOLD_WORKER_GPU METIS_WORKER_0_HOST WORKER_RANK POD_NAME POD_IP POD_INDEX
    """.split()  # noqa: SIM905 - as a text it can be read and changed
)
"""Set by the shell, the login or the platform. PYTHONPATH and the like may be empty; nothing breaks by that."""

SPECIAL = lazy_re(r"[0-9@*#?$!_-]|\d+")
"""Positional and special parameters."""


def is_platform(name: str) -> bool:
    """Whether something other than the text sets this variable."""
    return name in NAMES or name.startswith(PREFIXES)


def told_by_header(options: Sequence[SbatchOption], facts: LintFacts) -> dict[str, str]:
    """What SLURM and others will set, as far as header and facts tell it: sbatch(1), OUTPUT ENVIRONMENT VARIABLES."""
    header = {option.name: option.value or "" for option in options if not option.ignored and option.known}
    nodes, per_node, total = (_whole(header.get(name)) for name in ("nodes", "ntasks-per-node", "ntasks"))
    if nodes is None and header.get("nodes") is None:
        nodes = -(-total // per_node) if total and per_node else facts.nodes
    if total is None and header.get("ntasks") is None and nodes and per_node:
        total = nodes * per_node
    by_node = re.fullmatch(r"(?:[\w.-]+:)?(\d{1,4})", header.get("gpus-per-node", ""), re.ASCII)
    gres = re.search(r"(?:^|,)gpu(?::[A-Za-z][\w.-]*)?:(\d{1,4})", header.get("gres", ""), re.ASCII)
    gpus = by_node[1] if by_node else gres[1] if gres else None
    numbers = {
        "SLURM_NNODES": nodes, "SLURM_JOB_NUM_NODES": nodes, "SLURM_NTASKS": total, "SLURM_NPROCS": total,
        "SLURM_NTASKS_PER_NODE": per_node, "SLURM_GPUS_ON_NODE": gpus or facts.gpus_per_node,
        "SLURM_CPUS_PER_TASK": _whole(header.get("cpus-per-task")),
        "SKYPILOT_NUM_NODES": facts.nodes, "SKYPILOT_NUM_GPUS_PER_NODE": facts.gpus_per_node,
    }  # fmt: skip
    return {name: str(number) for name, number in numbers.items() if number is not None}


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"\d{1,6}", text, re.ASCII) else None
