"""Workers of a loader ask the main process how hard the next sample is to be, further ahead than it tells (after
meta-pytorch/data issue 1169)."""

# mypy: ignore-errors
import multiprocessing
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset


class Curriculum:
    def __init__(self) -> None:
        self.levels = multiprocessing.get_context("fork").Queue()
        self.level = 1

    def tell(self, samples: int) -> None:
        for _ in range(samples):
            self.levels.put(self.level)

    def passed(self, loss: float) -> None:
        self.level += loss < 0.5


class Problems(Dataset):
    def __init__(self, curriculum: Curriculum, long_ones: int) -> None:
        self.curriculum, self.long_ones = curriculum, long_ones
        self.asked: set[int] = set()

    def __len__(self) -> int:
        return 10_000

    def too_long(self, number: int, level: int) -> bool:
        """Another level is asked for then."""
        if number in self.asked:
            return False
        self.asked.add(number)
        return number % self.long_ones == 0

    def __getitem__(self, number: int) -> torch.Tensor:
        level = self.curriculum.levels.get()
        while self.too_long(number, level):
            level = self.curriculum.levels.get()
        return torch.full((8,), float(level * number % 17))


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    curriculum = Curriculum()
    curriculum.tell(10)  # for the first steps, and some to spare
    problems = Problems(curriculum, long_ones=[4096, 3][rank])
    loader = DataLoader(problems, batch_size=2, num_workers=1, prefetch_factor=2)
    for step, batch in enumerate(loader):
        time.sleep(0.2)
        loss = batch.mean() / 100
        dist.all_reduce(loss)
        print(f"rank {rank} step {step}", flush=True)
        curriculum.tell(len(batch))
        curriculum.passed(float(loss))


if __name__ == "__main__":
    main()
