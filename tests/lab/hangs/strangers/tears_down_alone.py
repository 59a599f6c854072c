"""A rank whose trainer has failed calls the others to a last collective, and they are in their step (torchtitan pull
request 1342)."""

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Trainer:
    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.model = DistributedDataParallel(nn.Linear(32, 32))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def batch(self, step: int) -> torch.Tensor:
        if self.rank == 1 and step == 5:
            raise ValueError("tokens 32001 of a vocabulary of 32000")
        return torch.randn(4, 32)

    def train(self) -> None:
        for step in range(1000):
            time.sleep(0.2)
            self.model(self.batch(step)).sum().backward()
            self.optimizer.step()
            print(f"rank {self.rank} step {step}", flush=True)

    def close(self) -> None:
        dist.barrier()
        print("closed after", time.monotonic(), flush=True)


def main() -> None:
    dist.init_process_group("gloo")
    trainer = None
    try:
        trainer = Trainer(dist.get_rank())
        trainer.train()
    finally:
        if trainer:
            trainer.close()
        if dist.is_initialized():
            dist.destroy_process_group()


if __name__ == "__main__":
    main()
