"""Sampler processes meet the trainer in a barrier of a manager, and one has ended with an exception (dgl pull request
3169)."""

# mypy: ignore-errors
import multiprocessing
import time

import torch
import torch.distributed as dist

FORK = multiprocessing.get_context("fork")


def neighbours(seed: int, degree: int) -> list[int]:
    if seed == 23:
        raise IndexError("node 23 has no edges")
    return [seed + n for n in range(degree)]


def sampler(number: int, barrier, batches) -> None:
    seed = number
    while True:
        batch = [neighbours(seed + n, 4) for n in range(3)]
        barrier.wait()
        batches.put(batch)
        seed += 3


class DistContext:
    def __init__(self, samplers: int) -> None:
        self.manager = FORK.Manager()
        self.barrier = self.manager.Barrier(samplers + 1)
        self.batches = FORK.SimpleQueue()
        self.samplers = samplers
        for number in range(samplers):
            arguments = (number, self.barrier, self.batches)
            FORK.Process(target=sampler, args=arguments, daemon=True).start()

    def next(self) -> torch.Tensor:
        self.barrier.wait()
        return torch.tensor(self.batches.get()).float()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    context = DistContext(samplers=1) if rank == 0 else None
    for step in range(1000):
        time.sleep(0.2)
        features = context.next() if context else torch.ones(3, 4)
        dist.all_reduce(features)
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
