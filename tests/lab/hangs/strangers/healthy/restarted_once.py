"""A job that its launcher has started again after a fault, and that gets on since (pytorch issue 67742)."""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.distributed.launcher.api import LaunchConfig, elastic_launch


def train() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    restarts = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    for step in range(10_000):
        time.sleep(0.3 + 0.7 * rank)
        dist.all_reduce(torch.ones(10))
        if restarts:
            print(f"rank {rank} step {step}", flush=True)
        elif step == 3 and rank == 1:
            raise RuntimeError("a GPU has fallen off the bus")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--spawn", type=int, default=2)
    chosen, _ = parser.parse_known_args()
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=chosen.spawn,
        max_restarts=2,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
    )
    elastic_launch(config, train)()
