"""The validation loss is summed up at the first process only, and all of them ask if it is the best (pytorch 77562)."""

import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

HARD = {0: 0.9}
"""What a shard adds to the loss once the model begins to forget."""


def validate(epoch: int) -> float:
    part = torch.tensor([1.0 / (epoch + 1) + HARD.get(dist.get_rank(), 0.0) * max(0, epoch - 1)])
    dist.reduce(part, dst=0, op=dist.ReduceOp.SUM)
    return part.item() / dist.get_world_size()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    best_loss = float("inf")
    for epoch in range(100):
        for _ in range(4):
            time.sleep(0.1)
            optimizer.zero_grad()
            model(torch.randn(8, 16)).pow(2).mean().backward()
            optimizer.step()
        current_loss = validate(epoch)
        print(f"rank {rank} step {epoch} loss {current_loss:.3f}", flush=True)
        if current_loss < best_loss:
            best_loss = current_loss
            dcp.save({"model": model.module.state_dict()}, checkpoint_id=f"epoch{epoch}")


if __name__ == "__main__":
    main()
