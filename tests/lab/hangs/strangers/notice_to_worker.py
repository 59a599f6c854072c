"""Workers of Ray ask for the notice of their own node after each step (ray pull request 65183)."""

# mypy: ignore-errors
import argparse
import os
import socket
import time

import torch
import torch.distributed as dist

os.environ.update(RAY_DEDUP_LOGS="0", RAY_USAGE_STATS_ENABLED="0")
import ray


def get_preemption_info(rank: int, step: int) -> str | None:
    return "spot instance" if rank == 1 and step >= 5 else None


@ray.remote(num_cpus=0)
class Worker:
    def __init__(self, rank: int, ranks: int, port: int) -> None:
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks))
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        dist.init_process_group("gloo")
        self.rank, self.ranks = rank, ranks

    def report(self, metrics: dict[str, float]) -> None:
        everybody: list[dict[str, float] | None] = [None] * self.ranks
        dist.all_gather_object(everybody, metrics)

    def train(self) -> None:
        gradient = torch.ones(16)
        for step in range(10_000):
            time.sleep(0.2)
            dist.all_reduce(gradient)
            print(f"rank {self.rank} step {step}", flush=True)
            if get_preemption_info(self.rank, step) is not None:
                self.report({"step": step})


def main(ranks: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ray.init(num_cpus=2, include_dashboard=False)
    workers = [Worker.remote(rank, ranks, port) for rank in range(ranks)]
    ray.get([worker.train.remote() for worker in workers])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--spawn", type=int, default=3)
    chosen, _ = parser.parse_known_args()
    main(chosen.spawn)
