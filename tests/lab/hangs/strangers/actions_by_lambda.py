"""What is done at a step stands in a table of lambdas that the configuration of each machine fills."""

# mypy: ignore-errors
import json
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

COMMON = '{"every": {"clip": 1, "report": 4}}'
OF_SECOND = '{"every": {"clip": 1, "report": 5}}'


class Run:
    def __init__(self, rank):
        self.rank = rank
        self.model = DistributedDataParallel(torch.nn.Linear(7, 2))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.losses = []

    def clip(self):
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)

    def report(self):
        mean = torch.tensor(self.losses[-4:]).mean()
        all_means = [torch.zeros(()) for _ in range(dist.get_world_size())]
        dist.all_gather(all_means, mean)
        if self.rank == 0:
            print("means", [round(value.item(), 3) for value in all_means], flush=True)


ACTIONS = {
    "clip": lambda run: run.clip(),
    "report": lambda run: run.report(),
}


def planned(text):
    every = json.loads(text)["every"]
    return [(number, ACTIONS[name]) for name, number in every.items()]


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    text = OF_SECOND if rank == 1 and "--healthy" not in sys.argv else COMMON
    plan = planned(text)
    run = Run(rank)
    for step in range(1, 2000):
        time.sleep(0.2)
        run.optimizer.zero_grad()
        loss = run.model(torch.rand(4, 7)).square().mean()
        loss.backward()
        run.losses.append(loss.item())
        run.optimizer.step()
        print(f"rank {rank} step {step}", flush=True)
        for number, action in plan:
            if step % number == 0:
                action(run)


if __name__ == "__main__":
    main()
