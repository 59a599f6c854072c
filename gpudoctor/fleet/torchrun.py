"""The command and the environment by which a node's ranks are started: torchrun, and nothing of our own."""

import json
from collections.abc import Mapping
from pathlib import Path

import msgspec

from gpudoctor.fleet.messages import Launch, Outer, may_set
from gpudoctor.knowledge.rank_variables import TORCHRUN

WORKERS = Path(__file__).resolve().parent.parent / "workers"

_OF_ANOTHER_LAUNCH = ("PET_", "TORCHELASTIC_")
"""torchrun takes PET_* as defaults of its options, and writes its error file where TORCHELASTIC_* of a job around us
says."""
_ALSO = frozenset({"LOGLEVEL", *TORCHRUN, "GROUP_RANK", "NODE_RANK"})
"""LOGLEVEL could silence the lines that say how a rank ended."""


def command(launch: Launch, node: int, python: str) -> list[str]:
    """torchrun for the ranks of fleet node `node`. Raises `ValueError` when the launch has none there."""
    if node not in launch.nodes:
        raise ValueError(f"launch {launch.id} has no ranks on node {node}")
    place = launch.nodes.index(node)
    outer = launch.outer or Outer(len(launch.nodes), place)
    plan = json.dumps(
        {"launch": msgspec.to_builtins(launch), "symmetric": launch.outer is not None}, separators=(",", ":")
    )
    program = "collective" if launch.train is None else "train"
    if outer.is_rank:
        return [python, str(WORKERS), program, plan]
    # Underscores: every torch takes them, and hyphens only from 2.0 on.
    return [
        python,
        str(WORKERS / "under_doctor.py"),
        "-m",
        "torch.distributed.run",
        f"--nnodes={outer.nodes}",
        f"--node_rank={outer.node_rank}",
        f"--nproc_per_node={launch.ranks_per_node[place]}",
        # Static rendezvous: with c10d no node takes the store's role when the head's name means 127.0.0.1.
        f"--master_addr={launch.master_address}",
        f"--master_port={launch.master_port}",
        f"--rdzv_id={launch.id}",
        f"--rdzv_conf=timeout={max(1, round(launch.timeout))}",
        "--max_restarts=0",
        "--monitor_interval=0.1",  # 5 s by default up to torch 2.4
        "--log_dir=/dev/null",  # else a folder for each launch stays in /tmp; under_doctor.py knows who takes it
        str(WORKERS),
        program,
        plan,
    ]


def environment(launch: Launch, base: Mapping[str, str]) -> dict[str, str]:
    """`base` without what an outer launcher left, and with the launch's settings. Raises `ValueError` for a name that
    an order may not set, or a value that no environment can hold.
    """
    for name, value in launch.environment.items():
        if not may_set(name):
            raise ValueError(f"{name} may not be set for ranks")
        if "\0" in value:
            raise ValueError(f"the value of {name} holds a null character")
    if launch.outer is not None and launch.outer.is_rank:
        return {**base, **launch.environment}
    kept = {
        name: value for name, value in base.items() if not name.startswith(_OF_ANOTHER_LAUNCH) and name not in _ALSO
    }
    return kept | launch.environment
