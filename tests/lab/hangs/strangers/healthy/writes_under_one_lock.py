"""Processes take turns in writing results, three seconds each, by a lock they were started with (tqdm issue 1500)."""

# mypy: ignore-errors
import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def worker(rank: int, world: int, lock) -> None:
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world))
    dist.init_process_group("gloo", rank=rank, world_size=world)
    for step in range(10_000):
        time.sleep(0.3)
        dist.all_reduce(torch.ones(8))
        print(f"rank {rank} step {step}", flush=True)
        if step > 1:
            with lock, open("results.txt", "a") as file:
                for line in range(6):
                    file.write(f"{rank} {step} {line}\n")
                    file.flush()
                    time.sleep(0.5)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--spawn", type=int, default=2)
    chosen, _ = parser.parse_known_args()
    mp.spawn(worker, args=(chosen.spawn, mp.get_context("spawn").Lock()), nprocs=chosen.spawn)
