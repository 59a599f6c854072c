"""One process has few batches and waits in Join until the other has had all of its own (pytorch pull request 42577)."""

# mypy: ignore-errors
import time

import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(4, 4))
    step = 0
    for _epoch in range(1000):
        with Join([model]):
            for _ in range(2 if rank else 8):
                time.sleep(1.2)
                model(torch.randn(2, 4)).mean().backward()
                print(f"rank {rank} step {step}", flush=True)
                step += 1


if __name__ == "__main__":
    main()
