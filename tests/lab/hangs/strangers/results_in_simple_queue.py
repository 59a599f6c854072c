"""Processes put what they have found into a SimpleQueue that is read when all have ended."""

# mypy: ignore-errors
# No thread of one job; the kind of torch.multiprocessing threads on results of spawn in a queue.
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

SMALL = "--healthy" in sys.argv


def work(rank: int, world: int, results) -> None:
    dist.init_process_group("gloo", rank=rank, world_size=world)
    for step in range(1000):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        if step % 6 == 5:
            rows = 200_000 if rank == 1 and not SMALL else 2
            results.put((rank, step, b"x" * rows))
        dist.barrier()
    dist.destroy_process_group()


def main() -> None:
    world = int(sys.argv[-1].rpartition("=")[2])
    results = mp.get_context("spawn").SimpleQueue()
    mp.spawn(work, args=(world, results), nprocs=world)
    print([results.get()[:2] for _ in range(world)], torch.__version__)


if __name__ == "__main__":
    main()
