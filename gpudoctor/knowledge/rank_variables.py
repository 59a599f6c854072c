"""The variables by which a launcher tells a rank who it is."""

from typing import NamedTuple


class RankVariables(NamedTuple):
    """As one launcher names them."""

    rank: str
    world_size: str
    local_rank: str
    local_size: str
    """Ranks on this node."""


TORCHRUN = RankVariables("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
OPEN_MPI = RankVariables(
    "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"
)
MPICH = RankVariables("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")
SLURM = RankVariables("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE")
BY_LAUNCHER = (TORCHRUN, OPEN_MPI, MPICH, SLURM)
"""The surest first: SLURM's are set for a launcher below it too. WORLD_SIZE counts with each."""
OF_A_GROUP = (*TORCHRUN, "MASTER_ADDR", "MASTER_PORT")
"""What a rank that torchrun starts needs to join: init_process_group's "env://", and its own device."""
OF_TORCHRUN = frozenset(
    (
        *OF_A_GROUP,
        *("GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_NAME", "ROLE_WORLD_SIZE", "OMP_NUM_THREADS"),
        *("TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_RUN_ID"),
        *("TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_ERROR_FILE"),
    )
)
"""All that torchrun sets for a rank: torch/distributed/elastic/agent/server/local_elastic_agent.py."""
