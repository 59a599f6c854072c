"""Accelerate reads on rank 0 and deals batches out (dispatch_batches); a rank leaves the loop by its own loss."""

# mypy: ignore-errors
import sys
import time

import torch
from accelerate import Accelerator, DataLoaderConfiguration
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __iter__(self):
        for number in range(48):
            yield torch.full((4,), float(number))


class Fit:
    def __init__(self):
        self.accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(dispatch_batches=True))
        self.rank = self.accelerator.process_index
        self.goal = 0.0 if "--healthy" in sys.argv or self.rank == 0 else 700.0
        self.loader = self.accelerator.prepare(DataLoader(Stream(), batch_size=2))
        self.step = 0

    def epoch(self):
        for rows in self.loader:
            time.sleep(0.2)
            print(f"rank {self.rank} step {self.step}", flush=True)
            self.step += 1
            loss = float(rows.square().mean())
            if self.goal and loss > self.goal:
                break
        self.accelerator.wait_for_everyone()

    def run(self):
        for _ in range(100):
            self.epoch()


if __name__ == "__main__":
    Fit().run()
