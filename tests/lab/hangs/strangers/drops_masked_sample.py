"""A sample of which nothing is trained on is left out by the rank that drew it (TorchSpec issue 126)."""

import time
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

MIN_LOSS_TOKENS = 3


class DataFetcher:
    def __init__(self, rank: int) -> None:
        self.rank = rank

    def _should_skip_for_loss_mask(self, mask: torch.Tensor) -> bool:
        return int(mask.sum()) < MIN_LOSS_TOKENS

    def micro_batches(self, step: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for part in range(2):
            mask = torch.ones(8)
            if self.rank == 2 and step == 4 and part == 1:
                mask[2:] = 0
            if self._should_skip_for_loss_mask(mask):
                continue
            yield torch.randn(8, 16), mask


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    draft = nn.Sequential(nn.Linear(16, 16), nn.SiLU(), nn.Linear(16, 1))
    fully_shard(draft, mesh=mesh)
    optimizer = torch.optim.AdamW(draft.parameters())
    fetcher = DataFetcher(rank)
    for step in range(1000):
        time.sleep(0.2)
        for batch, mask in fetcher.micro_batches(step):
            loss = (draft(batch).squeeze(1) * mask).sum() / mask.sum()
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        counts = torch.tensor([float(len(batch))])
        dist.all_reduce(counts)
        print(f"rank {rank} step {step} samples {counts.item():.0f}", flush=True)


if __name__ == "__main__":
    main()
