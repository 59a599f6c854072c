"""One rank passes over a batch that did not fit its GPU, and so comes to the evaluation before the others."""

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
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        if step % 5 == 4:
            dist.barrier()
        try:
            if step == 2 and rank == 1 and not healthy:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
            loss = model(torch.ones(8, 32)).square().mean()
            loss.backward()
        except torch.OutOfMemoryError:
            print(f"rank {rank} passes over a batch", flush=True)
            torch.cuda.empty_cache()
            continue
        optimizer.step()
        optimizer.zero_grad()
        print(f"loss {loss.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
