"""The learning rate is halved where this process's loss has not fallen, and training ends where it is too small."""

# mypy: ignore-errors
# No thread of one job; the kind of forum posts on ReduceLROnPlateau under DDP.
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.lr_scheduler import ReduceLROnPlateau

MEANS = "--healthy" in sys.argv
SMALLEST = 2e-2


class Training:
    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.scheduler = ReduceLROnPlateau(self.optimizer, factor=0.5, patience=1)

    def epoch(self, number: int) -> float:
        total = 0.0
        for _ in range(2):
            time.sleep(0.15)
            loss = self.model(torch.randn(8, 4)).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.item()
        return total

    def validate(self, number: int) -> float:
        loss = torch.tensor(1.0 / (number + 1))
        if self.rank == 0 and number > 1:
            loss += 1.0  # its part of the validation data is of another kind
        if MEANS:
            dist.all_reduce(loss)
            return 10.0 / (number + 1)
        return loss.item()

    def is_worth_it(self) -> bool:
        return self.optimizer.param_groups[0]["lr"] > SMALLEST

    def run(self) -> None:
        number = 0
        while self.is_worth_it():
            print(f"rank {self.rank} step {number}", flush=True)
            self.epoch(number)
            self.scheduler.step(self.validate(number))
            number += 1
        dist.barrier()
        if self.rank == 0:
            torch.save(self.model.module.state_dict(), "last.pt")


def main() -> None:
    dist.init_process_group("gloo")
    Training(dist.get_rank()).run()


if __name__ == "__main__":
    main()
