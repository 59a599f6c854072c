"""Each rank has its own files, one of them fewer batches: it evaluates while the others wait in the backward pass."""

import argparse
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    samples = 24 if healthy or rank != 1 else 16
    loader = DataLoader(TensorDataset(torch.randn(samples, 32)), batch_size=4)
    model = DistributedDataParallel(torch.nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(100):
        for step, (batch,) in enumerate(loader):
            time.sleep(0.2 + 0.4 * (rank % 2) if healthy else 0.05)
            model(batch).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            print(f"rank {rank} epoch {epoch} step {step}", flush=True)
        accuracy = torch.rand(1)
        dist.barrier()
        dist.reduce(accuracy, dst=0)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
