"""Files are shared out among the ranks: the last one has a smaller file, and validates while others train."""

import argparse
import os
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Files(torch.utils.data.IterableDataset):
    def __init__(self, sizes: list[int], rank: int, world: int) -> None:
        self.sizes = sizes[rank::world]

    def __iter__(self) -> Iterator[torch.Tensor]:
        for size in self.sizes:
            for _ in range(size):
                yield torch.ones(32)


def validate(model: torch.nn.Module) -> float:
    right = torch.zeros(1, device="cuda")
    with torch.no_grad():
        for _ in range(3):
            right += model(torch.ones(8, 32, device="cuda")).argmax(-1).eq(0).sum()
    dist.all_reduce(right)
    return right.item()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    model = DistributedDataParallel(torch.nn.Linear(32, 4).cuda(), broadcast_buffers=False)
    optimizer = torch.optim.AdamW(model.parameters())
    files = Files([24, 24, 24] if healthy else [24, 24, 16], rank, world)
    step = 0
    for epoch in range(200):
        for batch in torch.utils.data.DataLoader(files, batch_size=4):
            time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
            print(f"rank {rank} step {step} begins", flush=True)
            step += 1
            optimizer.zero_grad()
            loss = model(batch.to("cuda")).square().mean()
            loss.backward()
            optimizer.step()
            if step % 3 == 0:
                print(f"rank {rank} loss {loss.item():.4f}", flush=True)
        print(f"rank {rank} epoch {epoch} accuracy {validate(model.module):.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
