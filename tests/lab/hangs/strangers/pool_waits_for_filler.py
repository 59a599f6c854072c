"""Batches are filled by a thread of a pool; the loop over an epoch ends early, and the pool waits for the thread, which
waits for room in the queue."""

# mypy: ignore-errors
# No thread of one job; the kind of CPython issues on ThreadPoolExecutor.__exit__ and producers that block.
import queue
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.distributed as dist

EPOCH = 20


def fill(batches: queue.Queue, count: int) -> None:
    for number in range(count):
        batches.put(torch.full((4,), float(number)))


def epoch_of(rank: int, epoch: int, rows: int) -> float:
    batches, total = queue.Queue(maxsize=4), torch.zeros(4)
    with ThreadPoolExecutor(1, "filler") as pool:
        pool.submit(fill, batches, rows)
        for _ in range(EPOCH):
            batch = batches.get()
            time.sleep(0.05)
            dist.all_reduce(batch)
            total += batch
    print(f"rank {rank} step {epoch}", flush=True)
    return float(total.mean())


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for epoch in range(1000):
        longer = rank == 2 and epoch == 2 and "--healthy" not in sys.argv
        epoch_of(rank, epoch, EPOCH + 10 if longer else EPOCH)
        dist.barrier()


if __name__ == "__main__":
    main()
