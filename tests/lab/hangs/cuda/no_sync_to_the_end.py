"""Gradients are summed over micro-batches and sent with the last of them; one rank counts one more than it has."""

import contextlib
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(512, 512).cuda(), device_ids=[torch.cuda.current_device()])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    for step in range(1000):
        time.sleep(0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        counted = 3 if rank == 2 and step >= 4 else 2
        for index in range(2):
            with contextlib.nullcontext() if index == counted - 1 else model.no_sync():
                loss = model(torch.ones(8, 512, device="cuda")).square().mean()
                loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"rank {rank} loss {loss.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
