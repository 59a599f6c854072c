"""One rank's files hold more batches than those of the others, which wait at the end of the epoch."""

import argparse
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
    batches = 100 if healthy else 6 if rank == 2 else 5
    for epoch in range(10):
        for step in range(batches):
            time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
            print(f"rank {rank} step {step} begins", flush=True)
            loss = model(torch.ones(8, 32)).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            print(f"loss {loss.item():.3f}", flush=True)
        dist.barrier()
        print(f"rank {rank} epoch {epoch} is over", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
