"""Each process writes its part of a file under a lock of all, four seconds long, one after the other."""

import fcntl
import time

import torch
import torch.distributed as dist


def write(rank: int) -> None:
    with open("parts.bin", "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for _ in range(20):
            file.write(bytes(1000))
            time.sleep(0.2)
        fcntl.flock(file, fcntl.LOCK_UN)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        dist.all_reduce(torch.ones(1))
        print(f"rank {rank} step {step}", flush=True)
        if step > 1:
            write(rank)
            dist.barrier()


if __name__ == "__main__":
    main()
