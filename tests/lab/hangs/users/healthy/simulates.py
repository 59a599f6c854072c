"""Reinforcement learning: rank 0 collects episodes by a thread pool for four seconds before each update."""

import concurrent.futures
import time

import torch
import torch.distributed as dist


def episode(number: int) -> float:
    time.sleep(2)
    return number / 10


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for step in range(1000):
            reward = sum(pool.map(episode, range(4))) if rank == 0 else 0.0
            dist.broadcast(torch.tensor(reward), src=0)
            print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
