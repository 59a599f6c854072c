"""Features come from a pool, in the order in which they are done; a worker is ended by a fault in a library of C."""

# mypy: ignore-errors
# No thread of one job; after bugs.python.org issue 22393, which many threads on hanging pools point to.
import ctypes
import multiprocessing
import sys
import time

import torch
import torch.distributed as dist

READABLE = "--healthy" in sys.argv


def decode(number: int) -> float:
    time.sleep(0.1)
    if number == -1:
        ctypes.string_at(0)
    return number * 0.5


def files_of(rank: int) -> list[int]:
    files = list(range(4000 if READABLE else 30))
    if rank == 1 and not READABLE:
        files[14] = -1
    return files


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    context = multiprocessing.get_context("fork")
    weight, step = torch.zeros(1), 0
    with context.Pool(1) as pool:
        for feature in pool.imap_unordered(decode, files_of(rank)):
            gradient = torch.tensor([feature])
            dist.all_reduce(gradient)
            weight -= 1e-4 * gradient
            print(f"rank {rank} step {step}", flush=True)
            step += 1


if __name__ == "__main__":
    main()
