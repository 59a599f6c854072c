"""Rollouts are awaited together, each of which takes some seconds (prime-rl pull request 1318)."""

import asyncio
import time

import torch
import torch.distributed as dist


async def rollout(number: int, rank: int) -> int:
    for _ in range(4):
        await asyncio.sleep(0.5 + 0.3 * rank)
    return number


async def collect(rank: int) -> list[int]:
    return list(await asyncio.gather(*(rollout(number, rank) for number in range(4))))


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        rollouts = asyncio.run(collect(rank)) if step > 1 else [0]
        dist.all_reduce(torch.tensor([float(sum(rollouts))]))
        time.sleep(0.1)
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
