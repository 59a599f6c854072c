"""The executor that reads shards is left by its with-block while a reader stands in a named pipe."""

import os
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.distributed as dist


def read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        if rank == 1 and step == 3:
            os.mkfifo("shard-3")
            with ThreadPoolExecutor(2) as readers:
                readers.submit(read, "shard-3")
        dist.all_reduce(torch.ones(4))


if __name__ == "__main__":
    main()
