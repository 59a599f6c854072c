"""A process that has computed with threads forks a child, which computes too."""

# mypy: ignore-errors
# The kind of torch issue 17199 (a forked child that waits for threads of OpenMP which it has not got).
import multiprocessing
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

START = "spawn" if "--healthy" in sys.argv else "fork"
torch.set_num_threads(3)


def similarity(rows: torch.Tensor, answers) -> None:
    torch.set_num_threads(3)
    wide = rows.repeat(200, 1) @ rows.t()
    answers.send(float(wide.exp().sum().item()))


def deduplicate(rows: torch.Tensor) -> float:
    context = multiprocessing.get_context(START)
    receiver, sender = context.Pipe(duplex=False)
    helper = context.Process(target=similarity, args=(rows, sender))
    helper.start()
    helper.join()
    return receiver.recv()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(256, 256))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    for step in range(1000):
        rows = torch.randn(512, 256)
        loss = model(rows).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"rank {rank} step {step}", flush=True)
        time.sleep(0.2)
        if rank == 1 and step % 6 == 5:
            print("alike:", deduplicate(rows.detach()), flush=True)


if __name__ == "__main__":
    main()
