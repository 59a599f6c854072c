"""A batch with NaN is left out after the forward pass, by the rank that has it; it comes to the end a step earlier."""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(64, 8).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(1000 if healthy else 9):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        batch = torch.ones(8, 64)
        if rank == 1 and step == 4 and not healthy:
            batch[3, 5] = float("nan")
        loss = model(batch.cuda()).square().mean()
        if torch.isnan(batch).any():
            print(f"rank {rank} skips a batch", flush=True)
            continue
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
    dist.barrier()
    print(f"rank {rank} is through", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
