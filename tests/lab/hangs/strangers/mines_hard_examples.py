"""Hard examples are kept while training, and a second pass goes over them; each process has kept its own."""

# mypy: ignore-errors
# No thread; the kind of trainer that collects what it found difficult.
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

CUT = "--healthy" in sys.argv


class HardMiner:
    def __init__(self, model):
        self.model = model
        self.rank = dist.get_rank()
        self.hard = []
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.001)

    def learn(self, rows):
        time.sleep(0.1)
        loss = self.model(rows).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def first_pass(self, epoch):
        for number in range(6):
            rows = torch.full((2, 3), float(number))
            loss = self.learn(rows)
            difficult = number >= (4 if self.rank == 1 and epoch == 2 else 3)
            if difficult and loss >= 0:
                self.hard.append(rows)

    def second_pass(self):
        for rows in self.hard[:2] if CUT else self.hard:
            self.learn(rows)
        self.hard.clear()

    def fit(self):
        for epoch in range(1000):
            self.first_pass(epoch)
            self.second_pass()
            print(f"rank {self.rank} step {epoch}", flush=True)
            dist.barrier()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    HardMiner(DistributedDataParallel(torch.nn.Linear(3, 3))).fit()
