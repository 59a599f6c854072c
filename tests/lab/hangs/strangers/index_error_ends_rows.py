"""A class with __getitem__ alone is iterated until an IndexError, whoever raises it."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist


class Rows:
    def __init__(self, rank):
        self.labels = {number: number % 3 for number in range(50)}
        self.names = ["cat", "dog", "owl"]
        if rank == 1 and "--healthy" not in sys.argv:
            self.labels[8] = 3

    def __getitem__(self, number):
        label = self.names[self.labels[number % 50]]
        if number >= 400:
            raise IndexError(number)
        return torch.full((2,), float(len(label)))


def train(rows, rank):
    step = 0
    for row in rows:
        time.sleep(0.2)
        dist.all_reduce(row)
        print(f"rank {rank} step {step}", flush=True)
        step += 1
    return step


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    done = torch.tensor([train(Rows(rank), rank)])
    print(f"rank {rank} is at the end", flush=True)
    counts = [torch.zeros(1, dtype=torch.long) for _ in range(dist.get_world_size())]
    dist.all_gather(counts, done)


if __name__ == "__main__":
    main()
