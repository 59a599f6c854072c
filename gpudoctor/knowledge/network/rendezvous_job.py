"""Who this process would be at the rendezvous: whether it is rank 0's node, and whether several nodes are certain."""

from collections.abc import Mapping

from gpudoctor.knowledge.job import is_multi_node
from gpudoctor.knowledge.rank_variables import BY_LAUNCHER
from gpudoctor.snapshot import Rendezvous, Snapshot

NODE_RANKS = ("NODE_RANK", "GROUP_RANK", "SLURM_NODEID")


def rendezvous(machine: Snapshot) -> Rendezvous:
    """What was tried with MASTER_ADDR. Raises `NotRead`; `NotApplicable` where it is not set."""
    return machine.network.rendezvous.value


def is_head(environment: Mapping[str, str]) -> bool | None:
    """Whether rank 0 is on this node; None when the environment does not say."""
    if any(environment.get(names.rank, "").strip() == "0" for names in BY_LAUNCHER):
        return True
    for name in NODE_RANKS:
        value = environment.get(name, "").strip()
        if value.isdigit():
            return int(value) == 0
    return None


def surely_multi_node(environment: Mapping[str, str]) -> bool:
    """Several nodes by a launcher's own numbers, not by MASTER_ADDR alone, which one node may set too."""
    return is_multi_node({name: value for name, value in environment.items() if name != "MASTER_ADDR"})


def is_inside_job(environment: Mapping[str, str]) -> bool:
    """Whether a launcher has already started this process: its store listens, as it should."""
    return "TORCHELASTIC_RUN_ID" in environment
