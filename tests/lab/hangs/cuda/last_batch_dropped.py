"""Loaders over shards of unlike lengths, which drop what does not fill a batch: one rank has a batch less."""

import argparse
import os
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

SIZE = 8


def train(model: torch.nn.Module, loader: DataLoader, pause: float) -> Iterator[float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for number, (batch,) in enumerate(loader):
        time.sleep(pause)
        print(f"rank {dist.get_rank()} step {number} begins", flush=True)
        loss = model(batch.cuda(non_blocking=True)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        yield loss.item()


def validate(model: torch.nn.Module) -> float:
    with torch.no_grad():
        loss = model(torch.ones(SIZE, 16, device="cuda")).square().mean()
    dist.reduce(loss, dst=0)
    return loss.item()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    samples = 6 * SIZE - (1 if rank == 2 and not healthy else 0)
    loader = DataLoader(TensorDataset(torch.full((samples, 16), 1.0)), batch_size=SIZE, drop_last=True)
    model = DistributedDataParallel(torch.nn.Linear(16, 4).cuda())
    for epoch in range(100):
        losses = list(train(model, loader, 0.3 + 0.2 * rank if healthy else 0.05))
        print(f"rank {rank} epoch {epoch}: {sum(losses):.3f} {validate(model.module):.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
