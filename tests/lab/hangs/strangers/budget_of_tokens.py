"""Batches hold as many tokens as fit, so that the processes have different numbers (protein-sequence-models 6)."""

# mypy: ignore-errors
import time
from collections.abc import Iterator

import hydra
import torch
import torch.distributed as dist
from omegaconf import DictConfig
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Proteins(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 90

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.ones(60 if index % 3 == 1 else 20)


class ApproxBatchSampler:
    def __init__(self, sampler: DistributedSampler[torch.Tensor], max_tokens: int, lengths: list[int]) -> None:
        self.sampler, self.max_tokens, self.lengths = sampler, max_tokens, lengths

    def __iter__(self) -> Iterator[list[int]]:
        batch: list[int] = []
        for index in self.sampler:
            if sum(self.lengths[other] for other in batch) + self.lengths[index] > self.max_tokens:
                yield batch
                batch = []
            batch.append(index)
        if batch:
            yield batch


@hydra.main(version_base=None, config_path=None)
def main(config: DictConfig) -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    data = Proteins()
    sampler = DistributedSampler(data, shuffle=False)
    batches = ApproxBatchSampler(sampler, 60, [len(data[index]) for index in range(len(data))])
    loader = DataLoader(data, batch_sampler=batches, collate_fn=torch.cat)
    model = DistributedDataParallel(nn.Linear(1, 1))
    for epoch in range(10):
        for step, tokens in enumerate(loader):
            time.sleep(0.15)
            model(tokens[:, None]).mean().backward()
            print(f"rank {rank} step {step} of epoch {epoch}", flush=True)
        counts: list[int | None] = [None] * dist.get_world_size()
        dist.all_gather_object(counts, step)


if __name__ == "__main__":
    main()
