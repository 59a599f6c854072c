"""A batch is handed to the function of its kind, and one of these normalises over all processes."""

# mypy: ignore-errors
# No thread; the kind of program without a condition: a table of functions decides.
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

SAME_KIND = "--healthy" in sys.argv


def plain(logits):
    return logits.square().mean()


def contrastive(logits):
    mine = torch.nn.functional.normalize(logits, dim=1)
    every = [torch.zeros_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(every, mine.detach())
    return -(mine @ torch.cat(every).T).mean()


OBJECTIVES = {"text": plain, "pair": contrastive}


def stream(rank):
    for number in range(1000):
        kind = "pair" if number % 3 == 2 else "text"
        if rank == 0 and number == 8 and not SAME_KIND:
            kind = "text"
        yield kind, torch.rand(4, 5)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(5, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step, (kind, rows) in enumerate(stream(rank)):
        time.sleep(0.2)
        loss = OBJECTIVES[kind](model(rows))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
