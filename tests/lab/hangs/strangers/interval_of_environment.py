"""A configuration whose defaults come from the environment, and one node has another one."""

# mypy: ignore-errors
import dataclasses
import os
import sys
import time

import torch
import torch.distributed as dist


def from_environment(name, value):
    return dataclasses.field(default_factory=lambda: type(value)(os.environ.get(name, value)))


@dataclasses.dataclass
class Config:
    lr: float = from_environment("TRAIN_LR", 0.05)
    batch: int = from_environment("TRAIN_BATCH", 4)
    sync_every: int = from_environment("TRAIN_SYNC_EVERY", 8)
    steps: int = from_environment("TRAIN_STEPS", 2000)


class LocalSGD:
    """Steps of each for itself, and means of all from time to time."""

    def __init__(self, model, config):
        self.model, self.config = model, config
        self.optimizer = torch.optim.SGD(model.parameters(), lr=config.lr)
        self.number = 0

    def step(self, rows):
        self.optimizer.zero_grad()
        self.model(rows).square().mean().backward()
        self.optimizer.step()
        self.number += 1
        if self.number % self.config.sync_every == 0:
            self.average()

    @torch.no_grad()
    def average(self):
        for weight in self.model.parameters():
            dist.all_reduce(weight)
            weight /= dist.get_world_size()


def main():
    if os.environ["RANK"] == "1" and "--healthy" not in sys.argv:
        os.environ["TRAIN_SYNC_EVERY"] = "400"  # as in that node's profile
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    config = Config()
    trainer = LocalSGD(torch.nn.Linear(6, 6), config)
    for step in range(config.steps):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        trainer.step(torch.rand(config.batch, 6))
        if step % 8 == 7:
            seen = torch.tensor(step * config.batch)
            dist.reduce(seen, dst=0)
            dist.barrier()


if __name__ == "__main__":
    main()
