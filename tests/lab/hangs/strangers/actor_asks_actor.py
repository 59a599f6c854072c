"""An actor of Ray asks the other one in the middle of a step, and that one is busy with the same step (ray issue
46795)."""

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
class Trainer:
    def __init__(self, rank: int, ranks: int, port: int) -> None:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        dist.init_process_group("gloo", rank=rank, world_size=ranks)
        self.rank = rank
        self.others = []
        self.temperature = 1.0

    def meet(self, others: list) -> None:
        self.others = others

    def current_temperature(self) -> float:
        return self.temperature

    def fit(self) -> None:
        weights = torch.ones(16)
        for step in range(10_000):
            time.sleep(0.2)
            if self.rank == 1 and step == 6:
                self.temperature = ray.get(self.others[0].current_temperature.remote())
            dist.all_reduce(weights)
            print(f"rank {self.rank} step {step}", flush=True)


def main(ranks: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ray.init(num_cpus=2, include_dashboard=False)
    trainers = [Trainer.remote(rank, ranks, port) for rank in range(ranks)]
    ray.get([trainer.meet.remote(trainers) for trainer in trainers])
    ray.get([trainer.fit.remote() for trainer in trainers])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--spawn", type=int, default=2)
    chosen, _ = parser.parse_known_args()
    main(chosen.spawn)
