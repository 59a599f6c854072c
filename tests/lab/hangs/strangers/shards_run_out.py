"""Shards that do not divide among the ranks: one rank has fewer batches (webdataset issue 188)."""

import time
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

SHARDS = [f"shard-{number:06d}.tar" for number in range(5)]


class Shards(IterableDataset):
    def __init__(self, urls: list[str]) -> None:
        self.urls = urls[dist.get_rank() :: dist.get_world_size()]

    def __iter__(self) -> Iterator[torch.Tensor]:
        worker = get_worker_info()
        for _ in self.urls[worker.id :: worker.num_workers]:
            for _ in range(16):
                yield torch.randn(10)


def main() -> None:
    dist.init_process_group("gloo")
    loader = DataLoader(Shards(SHARDS), batch_size=4, num_workers=2)
    model = DDP(nn.Linear(10, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for epoch in range(3):
        for step, batch in enumerate(loader):
            time.sleep(0.1)
            optimizer.zero_grad()
            model(batch).mean().backward()
            optimizer.step()
            print(f"rank {dist.get_rank()} step {step} epoch {epoch}", flush=True)
        dist.barrier()
        if dist.get_rank() == 0:
            torch.save(model.state_dict(), f"epoch{epoch}.pt")


if __name__ == "__main__":
    main()
