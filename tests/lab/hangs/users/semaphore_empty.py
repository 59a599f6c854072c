"""Each upload takes a slot, and one that failed has not given it back."""

import threading

import torch
import torch.distributed as dist

SLOTS = threading.Semaphore(3)


def upload(step: int, fails: bool) -> None:
    SLOTS.acquire()
    if fails:
        return
    SLOTS.release()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        upload(step, fails=rank == 0)
        dist.all_reduce(torch.ones(4))


if __name__ == "__main__":
    main()
