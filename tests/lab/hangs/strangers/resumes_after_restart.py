"""After an elastic restart each rank goes on from the newest checkpoint that it has itself (pytorch issue 67742)."""

import argparse
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.launcher.api import LaunchConfig, elastic_launch


def newest(rank: int) -> int:
    """The step after the last one that is saved."""
    steps = [int(path.stem) for path in Path(f"rank{rank}").glob("*.pt")]
    return max(steps) + 1 if steps else 0


def train() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    restarts = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    Path(f"rank{rank}").mkdir(exist_ok=True)
    weights = torch.ones(10)
    for step in range(newest(rank), 10):
        time.sleep(0.3)
        dist.all_reduce(weights)
        weights /= dist.get_world_size()
        if step % 3 == 2 or (rank == 1 and step == 6):
            torch.save(weights, f"rank{rank}/{step}.pt")
        if restarts:
            print(f"rank {rank} step {step}", flush=True)
        elif step == 6:
            dist.barrier()
            if rank == 0:
                raise RuntimeError("a GPU has fallen off the bus")
    dist.broadcast(weights, src=0)
    print(f"rank {rank} has finished", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--spawn", type=int, default=3)
    chosen, _ = parser.parse_known_args()
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=chosen.spawn,
        max_restarts=1,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        monitor_interval=0.5,
    )
    elastic_launch(config, train)()


if __name__ == "__main__":
    main()
