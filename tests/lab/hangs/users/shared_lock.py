"""Ranks of mp.spawn share a lock; one waits in a collective while it has it."""

import os
import sys
import time
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def worker(rank: int, size: int, lock: Any) -> None:
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(size))
    dist.init_process_group("gloo")
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        dist.all_reduce(torch.ones(4))
        if step >= 3:
            time.sleep(0.3 * rank)
            with lock:
                dist.broadcast(torch.ones(2), src=0)
                dist.barrier()


if __name__ == "__main__":
    ranks = int(sys.argv[-1].partition("=")[2])
    mp.spawn(worker, args=(ranks, mp.get_context("spawn").Lock()), nprocs=ranks)  # type: ignore[attr-defined, no-untyped-call]
