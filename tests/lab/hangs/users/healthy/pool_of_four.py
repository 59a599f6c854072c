"""Every step a pool of processes prepares the next data, for three seconds."""

import multiprocessing
import time

import torch
import torch.distributed as dist


def prepare(number: int) -> int:
    time.sleep(1.5)
    return number


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for step in range(1000):
            numbers = pool.map(prepare, range(4), chunksize=1)
            dist.all_reduce(torch.tensor(numbers))
            print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
