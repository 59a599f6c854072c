"""Workers of Ray that train, in steps of a second, under a driver that waits for them (ray pull request 28314)."""

# mypy: ignore-errors
import argparse
import os
import socket
import time

import torch
import torch.distributed as dist

os.environ.update(RAY_DEDUP_LOGS="0", RAY_USAGE_STATS_ENABLED="0")
import ray


@ray.remote(num_cpus=0)
class Worker:
    def __init__(self, rank: int, ranks: int, port: int) -> None:
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks))
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        dist.init_process_group("gloo")
        self.rank = rank

    def train(self) -> None:
        gradient = torch.ones(16)
        for step in range(10_000):
            time.sleep(0.4 + 0.8 * self.rank)
            dist.all_reduce(gradient)
            print(f"rank {self.rank} step {step}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--spawn", type=int, default=2)
    chosen, _ = parser.parse_known_args()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ray.init(num_cpus=2, include_dashboard=False)
    ray.get([Worker.remote(rank, chosen.spawn, port).train.remote() for rank in range(chosen.spawn)])
