"""Starts the rank program of train-test under real torchrun with gloo, as an agent does, and reads what it says."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from gpudoctor.fleet.messages import Launch, TrainCell, TrainPlan
from gpudoctor.nccl.rank_messages import AnyRankMessage, Trained
from tests.collective_ranks import WORKERS, decoded, torchruns_folder
from tests.lab import warm

FAULTY = Path(__file__).parent / "lab" / "faulty_training.py"
SECONDS = 450
"""A bound for what takes some ten seconds, on a busy machine too."""


def launch(ranks: int, cells: Sequence[tuple[str, str]], **plan: Any) -> Launch:
    return Launch(
        id="test",
        nodes=(0,),
        ranks_per_node=(ranks,),
        master_address="127.0.0.1",
        master_port=0,
        backend="gloo",
        device="cpu",
        measurements=(),
        timeout=300.0,
        train=TrainPlan(cells=tuple(TrainCell(way, precision) for way, precision in cells), **plan),  # type: ignore[arg-type]
    )


def command(wish: Launch, *, faults: Sequence[str] = ()) -> list[str]:
    """As the agent starts it; a rendezvous of torchrun's own, for the test chooses no port."""
    argument = json.dumps({"launch": msgspec.to_builtins(wish), "symmetric": False})
    torchrun = [str(WORKERS / "under_doctor.py"), "-m", "torch.distributed.run", "--standalone"]
    program = [str(FAULTY), ",".join(faults)] if faults else [str(WORKERS), "train"]
    return [sys.executable, *torchrun, f"--nproc-per-node={wish.ranks_per_node[0]}", *program, argument]


def run(
    wish: Launch, *, faults: Sequence[str] = (), truly: bool = False, **environment: str
) -> tuple[int, list[AnyRankMessage]]:
    """(exit status, what the ranks said)."""
    with torchruns_folder() as own:
        done = warm.run_to_its_end(
            command(wish, faults=faults), env={**os.environ, **own, **environment}, timeout=SECONDS, truly=truly
        )
        left = [path.name for path in Path(own["TMPDIR"]).iterdir() if not path.name.startswith("torchelastic_")]
    assert not left, left
    return done.returncode, decoded(done.stdout)


def trained(said: Sequence[AnyRankMessage]) -> list[Trained]:
    return [message for message in said if isinstance(message, Trained)]
