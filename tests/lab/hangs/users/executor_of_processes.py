"""A task of a ProcessPoolExecutor waits for a lock file of its own that nobody removes."""

import multiprocessing
import pathlib
import time
from concurrent.futures import ProcessPoolExecutor

import torch
import torch.distributed as dist


def tokenize(number: int, stuck: bool) -> int:
    while stuck and not pathlib.Path("tokens.done").exists():
        time.sleep(3600)
    return number


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as executor:
        for step in range(1000):
            print(f"rank {rank} step {step}", flush=True)
            result = executor.submit(tokenize, step, rank == 1 and step == 3).result()
            dist.all_reduce(torch.tensor(result))


if __name__ == "__main__":
    main()
