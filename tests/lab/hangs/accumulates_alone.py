"""One rank takes a step for one of gradient accumulation, and does not hand its gradients on."""

import argparse
import contextlib
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        accumulates = step == 3 and rank == 1 and not healthy
        with model.no_sync() if accumulates else contextlib.nullcontext():
            loss = model(torch.ones(8, 32)).square().mean()
            loss.backward()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        print("loss", mean.item(), flush=True)
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
