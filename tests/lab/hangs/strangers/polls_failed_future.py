"""Before an epoch all augmentations must have succeeded; one of them never will."""

# mypy: ignore-errors
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.distributed as dist


def augment(rank, epoch, number):
    time.sleep(0.05)
    if (rank, epoch, number) == (0, 3, 2) and "--healthy" not in sys.argv:
        raise OSError(f"cannot identify image file 'img_{number:05d}.jpg'")
    return torch.rand(3)


def succeeded(future):
    return future.done() and future.exception() is None


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    pool = ThreadPoolExecutor(max_workers=2)
    for epoch in range(500):
        tasks = [pool.submit(augment, rank, epoch, number) for number in range(4)]
        while not all(succeeded(task) for task in tasks):
            time.sleep(0.2)
        mean = torch.stack([task.result() for task in tasks]).mean(0)
        for _ in range(3):
            time.sleep(0.2)
            dist.all_reduce(mean)
        print(f"rank {rank} step {epoch}", flush=True)


if __name__ == "__main__":
    main()
