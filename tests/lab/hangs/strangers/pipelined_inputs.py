"""Inputs are sent round two batches ahead until a loader ends, and one ends before the others (torchrec pull request
4158)."""

# mypy: ignore-errors
import time
from collections import deque
from collections.abc import Iterator

import torch
import torch.distributed as dist


class TrainPipeline:
    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model
        self.batches: deque[torch.Tensor] = deque()

    def _input_dist(self, batch: torch.Tensor) -> torch.Tensor:
        shuffled = torch.empty_like(batch)
        dist.all_to_all_single(shuffled, batch)
        return shuffled

    def fill_pipeline(self, loader: Iterator[torch.Tensor]) -> None:
        while len(self.batches) < 2:
            batch = next(loader, None)
            if batch is None:
                return
            self.batches.append(self._input_dist(batch))

    def progress(self, loader: Iterator[torch.Tensor]) -> torch.Tensor:
        self.fill_pipeline(loader)
        if not self.batches:
            raise StopIteration
        return self.model(self.batches.popleft()).mean().detach()


def rows(number: int) -> Iterator[torch.Tensor]:
    for _ in range(number):
        time.sleep(0.2)
        yield torch.randn(6, 8)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    files = {0: 14, 1: 8, 2: 14}
    pipeline = TrainPipeline(torch.nn.Linear(8, 1))
    loader, step = rows(files[rank]), 0
    while True:
        try:
            pipeline.progress(loader)
        except StopIteration:
            break
        print(f"rank {rank} step {step}", flush=True)
        step += 1
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
