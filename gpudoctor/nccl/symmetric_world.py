"""Which part of a world this process is, when the user's own torchrun or srun started one of us a rank or a node."""

import re
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from gpudoctor.fleet.slurm import NoSlurm, node_names, situation
from gpudoctor.knowledge.rank_variables import OF_A_GROUP

FIRST_PORT, PORTS = 61000, 4536
"""Above what Linux hands out to clients; the job's number decides, so that jobs on one node do not meet."""
SLURM = ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NUM_NODES")


class NoWorld(ValueError):
    """There is no way to the other processes; the message is one line for the user."""


class SymmetricWorld(Struct, frozen=True, kw_only=True):
    """The place of this process."""

    launcher: Literal["torchrun", "srun"]
    is_rank: bool
    """A rank by itself; else one a node, which starts the ranks of its node."""
    is_first: bool
    """Rank 0, or the node of rank 0: the one that grades and prints."""
    master_address: str
    master_port: int
    size: int
    """Ranks of the world; 0 where that shows only when they are there."""
    nodes: int
    node_rank: int
    name: str
    """For words: "rank 3" or "node 1"."""
    variables: dict[str, str] = {}
    """What makes the process a rank, where its environment does not yet."""


def world(environment: Mapping[str, str]) -> SymmetricWorld:
    """Raises `NoWorld` where the environment does not tell enough to meet the others."""
    return _torchrun(environment) if "TORCHELASTIC_RUN_ID" in environment else _slurm(environment)


def _torchrun(environment: Mapping[str, str]) -> SymmetricWorld:
    lacking = [name for name in OF_A_GROUP if not environment.get(name)]
    if lacking:
        raise NoWorld(
            f"torchrun has not set {', '.join(lacking)} for this process; start it as torchrun ... -m gpudoctor.nccl"
        )
    rank, size = _number(environment, "RANK"), _number(environment, "WORLD_SIZE")
    nodes = _number(environment, "GROUP_WORLD_SIZE", 1)
    tasks = _number(environment, "SLURM_STEP_NUM_TASKS", 1) if situation(environment) == "step" else 1
    if tasks > 1 and nodes == 1:
        raise NoWorld(
            f"srun has started {tasks} tasks, each with a torchrun of its own for 1 node (world size {size}): {tasks} "
            "separate tests; give each torchrun --nnodes=$SLURM_NNODES --node-rank=$SLURM_NODEID --master-addr and "
            "--master-port, or run: srun gpudoctor nccl-test"
        )
    return SymmetricWorld(
        launcher="torchrun",
        is_rank=True,
        is_first=rank == 0,
        master_address=environment["MASTER_ADDR"],
        master_port=_port(environment),
        size=size,
        nodes=nodes,
        node_rank=_number(environment, "GROUP_RANK", 0),
        name=f"rank {rank}",
    )


def _slurm(environment: Mapping[str, str]) -> SymmetricWorld:
    lacking = [name for name in SLURM if not environment.get(name)]
    if lacking:
        raise NoWorld(
            f"this is no task of srun ({', '.join(lacking)} not set); run gpudoctor nccl-test in the job's shell"
        )
    task, size = _number(environment, "SLURM_PROCID"), _number(environment, "SLURM_STEP_NUM_TASKS")
    nodes, node = _number(environment, "SLURM_STEP_NUM_NODES"), _number(environment, "SLURM_NODEID")
    counts = tasks_per_node(environment.get("SLURM_STEP_TASKS_PER_NODE", ""))
    if sum(counts) != size or len(counts) != nodes or not 0 <= node < nodes:
        raise NoWorld(
            f"SLURM_STEP_TASKS_PER_NODE={environment.get('SLURM_STEP_TASKS_PER_NODE', '')!r} does not fit {size} tasks "
            f"on {nodes} nodes, of which this is node {node}; run gpudoctor nccl-test in the job's shell, without srun"
        )
    is_rank = size > nodes
    address, port = _meeting_point(environment)
    ranks = {
        "RANK": str(task),
        "WORLD_SIZE": str(size),
        "LOCAL_RANK": environment["SLURM_LOCALID"],
        "LOCAL_WORLD_SIZE": str(counts[node]),
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port),
    }
    return SymmetricWorld(
        launcher="srun",
        is_rank=is_rank,
        is_first=task == 0,
        master_address=address,
        master_port=port,
        size=size if is_rank else 0,
        nodes=nodes,
        node_rank=node,
        name=f"rank {task}" if is_rank else f"node {node}",
        variables=ranks if is_rank else {},
    )


def _meeting_point(environment: Mapping[str, str]) -> tuple[str, int]:
    """MASTER_ADDR and MASTER_PORT where they are set, else the step's first node and a port of the job's number."""
    address = environment.get("MASTER_ADDR", "")
    if not address:
        folded = environment.get("SLURM_STEP_NODELIST") or environment.get("SLURM_JOB_NODELIST", "")
        try:
            address = node_names({"SLURM_JOB_NODELIST": folded})[0]
        except NoSlurm as error:
            raise NoWorld(f"{error}; set MASTER_ADDR to the first node's name") from None
    if environment.get("MASTER_PORT"):
        return address, _port(environment)
    job, step = _number(environment, "SLURM_JOB_ID", 0), _number(environment, "SLURM_STEP_ID", 0)
    return address, FIRST_PORT + (job + step) % PORTS


def tasks_per_node(text: str) -> tuple[int, ...]:
    """ "4(x2),3" -> (4, 4, 3); () when it is no such list."""
    counts: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"([0-9]{1,6})(?:\(x([0-9]{1,6})\))?", part)
        if match is None:
            return ()
        counts += [int(match[1])] * int(match[2] or 1)
    return tuple(counts)


def _number(environment: Mapping[str, str], name: str, default: int | None = None) -> int:
    text = environment.get(name, "")
    if not text and default is not None:
        return default
    if not (text.isascii() and text.isdecimal()) or len(text) > 10:
        raise NoWorld(f"{name}={text!r} is no number; the launcher that started this process sets it")
    return int(text)


def _port(environment: Mapping[str, str]) -> int:
    port = _number(environment, "MASTER_PORT")
    if not 0 < port < 65536:
        raise NoWorld(f"MASTER_PORT={port} is no port")
    return port
