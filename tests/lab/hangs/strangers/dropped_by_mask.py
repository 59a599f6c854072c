"""Samples without a token to learn from are dropped where they are fetched (TorchSpec request 138)."""

# mypy: ignore-errors
import itertools
import time

import torch
import torch.distributed as dist

MICRO_BATCHES = 3


class DataFetcher:
    """The samples of this process for one dispatched step."""

    def __init__(self, rank: int, step: int, min_loss_tokens: int = 4) -> None:
        self.rank, self.step, self.min_loss_tokens = rank, step, min_loss_tokens

    def _skips(self, mask: torch.Tensor) -> bool:
        return int(mask.sum()) < self.min_loss_tokens

    def __iter__(self):
        for number in range(MICRO_BATCHES):
            mask = torch.ones(16)
            if self.rank == 1 and self.step == 4 and number == 1:
                mask[:] = 0
            if not self._skips(mask):
                yield mask


class Trainer:
    def __init__(self, rank: int) -> None:
        self.rank, self.weight = rank, torch.ones(16)

    def forward_backward(self, mask: torch.Tensor) -> torch.Tensor:
        time.sleep(0.1)
        shards = [torch.zeros(16) for _ in range(dist.get_world_size())]
        dist.all_gather(shards, self.weight * mask)
        return torch.stack(shards).mean()

    def train_step(self, step: int) -> None:
        for mask in itertools.islice(DataFetcher(self.rank, step), MICRO_BATCHES):
            self.forward_backward(mask)
        norm = self.weight.norm().reshape(1)
        dist.all_reduce(norm)


def main() -> None:
    dist.init_process_group("gloo")
    trainer = Trainer(dist.get_rank())
    for step in range(1000):
        print(f"rank {trainer.rank} step {step}", flush=True)
        trainer.train_step(step)


if __name__ == "__main__":
    main()
