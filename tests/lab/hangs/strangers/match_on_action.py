"""What a process does next is decided by its own monitor, and one of the actions asks all the others."""

# mypy: ignore-errors
# No thread; the kind of loop that is written with match.
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Advisor:
    def __init__(self, rank):
        self.rank = rank
        self.shared = "--healthy" in sys.argv

    def advise(self, step):
        if step and step % 7 == 0 and (self.shared or self.rank == 1):
            return "rewind", step - 2
        return "go", step


def rewind(model, to):
    for weight in model.parameters():
        dist.broadcast(weight.data, src=0)
    return to


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    advisor = Advisor(rank)
    model = DistributedDataParallel(torch.nn.Linear(7, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(1000):
        time.sleep(0.2)
        match advisor.advise(step):
            case "rewind", to:
                rewind(model.module, to)
            case "go", _:
                pass
        model(torch.rand(2, 7)).mean().backward()
        optimizer.step()
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
