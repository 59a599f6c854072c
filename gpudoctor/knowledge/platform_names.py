"""The variables by which schedulers, services and MPIs number ranks and nodes: whole families, so that a name of the
family that is not among them is known to be empty.

Sources: gpudoctor.knowledge.slurm_names; SkyPilot 0.10 (skylet/constants.py, backends/task_codegen.py); dstack's
reference of environment variables; Open MPI 4 and 5; MVAPICH2; Horovod 0.28 (runner/gloo_run.py); LeaderWorkerSet
(pkg/utils/pod); torchrun's PET_* (torch/distributed/argparse_util.py), as the training operator sets it.
"""

from gpudoctor.knowledge.hugging_face_options import nearest
from gpudoctor.knowledge.slurm_names import NAMES

_MPI = "RANK SIZE LOCAL_RANK LOCAL_SIZE NODE_RANK"
_WORDS = {
    "SKYPILOT": "NODE_RANK NODE_IPS NUM_NODES NUM_GPUS_PER_NODE SETUP_NODE_RANK SETUP_NODE_IPS JOB_ID JOB_RANK NUM_JOBS"
    " SETUP_NUM_GPUS_PER_NODE TASK_ID TASK_IDS INTERNAL_JOB_ID SERVE_REPLICA_ID",
    "DSTACK": "NODE_RANK NODES_NUM NODES_IPS MASTER_NODE_IP GPUS_PER_NODE GPUS_NUM JOB_ID RUN_ID REPO_ID JOB_NUM"
    " REPLICA_NUM",
    "OMPI_COMM_WORLD": _MPI,
    "MV2_COMM_WORLD": _MPI,
    "HOROVOD": "RANK SIZE LOCAL_RANK LOCAL_SIZE CROSS_RANK CROSS_SIZE",
    "LWS": "LEADER_ADDRESS GROUP_SIZE WORKER_INDEX",
    "PET": "NNODES NPROC_PER_NODE NODE_RANK MASTER_ADDR MASTER_PORT RDZV_ID RDZV_ENDPOINT",
    "JOB_COMPLETION": "INDEX",
}
FAMILIES = {
    **{family: {f"{family}_{each}" for each in words.split()} for family, words in _WORDS.items()},
    "SLURM": NAMES,
}
_COUNTS = """
    N NUM NUMBER COUNT NODE NODES NNODES NODEID RANK RANKS LOCAL LOCALID GLOBAL WORLD SIZE GPU GPUS NGPUS NPROC NPROCS
    PROC PROCS TASK TASKS NTASKS PER ON IP IPS ADDR ADDRESS MASTER HEAD LEADER HOST HOSTS PORT ID INDEX IDX TOTAL LIST
    NODELIST PROCID JOB WORKER WORKERS
"""
_OF_COUNTS = frozenset(_COUNTS.split())
_MEANT = {
    "SLURM_RANK": "SLURM_PROCID",
    "SLURM_GLOBAL_RANK": "SLURM_PROCID",
    "SLURM_LOCAL_RANK": "SLURM_LOCALID",
    "SLURM_NODE_RANK": "SLURM_NODEID",
    "SLURM_WORLD_SIZE": "SLURM_NTASKS",
    "SLURM_NUM_TASKS": "SLURM_NTASKS",
    "SLURM_NUM_NODES": "SLURM_NNODES",
    "SLURM_NUM_GPUS": "SLURM_GPUS_ON_NODE",
    "DSTACK_NUM_NODES": "DSTACK_NODES_NUM",
    "DSTACK_NUM_GPUS": "DSTACK_GPUS_NUM",
}


def family_of(name: str) -> str:
    return next((family for family in FAMILIES if name.startswith(family + "_")), "")


def meant_by(name: str) -> str:
    """What was meant by a name that nobody sets; empty where the name is set, or may be somebody's own."""
    family = family_of(name)
    known = FAMILIES.get(family, ())
    if not known or name in known or "HET_GROUP" in name:
        return ""
    if name in _MEANT:
        return _MEANT[name]
    counts = {*name[len(family) + 1 :].split("_")} <= _OF_COUNTS
    if family == "SLURM":
        return nearest(name, NAMES, 0.9)  # sites' prologs set names of their own
    return (nearest(name, frozenset(known), 0.5) or min(known)) if counts else ""
