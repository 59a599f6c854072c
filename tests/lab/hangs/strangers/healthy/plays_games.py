"""Rank 0 lets a pool of workers play games, and then hands the experience to all."""

import multiprocessing
import time

import torch
import torch.distributed as dist


def play(seed: int) -> float:
    time.sleep(3.0 + seed % 2)
    return float(seed)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    pool = multiprocessing.get_context("forkserver").Pool(2) if rank == 0 else None
    for step in range(1000):
        returns = torch.zeros(4)
        if pool is not None and step > 1:
            returns = torch.tensor(pool.map(play, range(4)))
        dist.broadcast(returns, src=0)
        dist.all_reduce(returns)
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
