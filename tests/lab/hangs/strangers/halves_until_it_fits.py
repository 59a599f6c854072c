"""accelerate: the largest batch that fits is sought by each process for itself, and training begins anew with half."""

# mypy: ignore-errors
# No thread of one job; the kind of accelerate issues on find_executable_batch_size with several processes.
import sys
import time

import torch
from accelerate import Accelerator
from accelerate.utils import find_executable_batch_size

OTHERS_ON_GPU = "--healthy" not in sys.argv


def main() -> None:
    accelerator = Accelerator(cpu=True)
    rank = accelerator.process_index

    def allocate(batch_size: int, step: int) -> torch.Tensor:
        if OTHERS_ON_GPU and rank == 1 and batch_size > 8 and step == 4:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return torch.randn(batch_size, 4)

    @find_executable_batch_size(starting_batch_size=16)
    def train(batch_size: int) -> None:
        accelerator.free_memory()
        model = accelerator.prepare(torch.nn.Linear(4, 1))
        for step in range(1000):
            time.sleep(0.3)
            print(f"rank {rank} step {step}", flush=True)
            accelerator.backward(model(allocate(batch_size, step)).square().mean())

    train()


if __name__ == "__main__":
    main()
