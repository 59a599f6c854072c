"""A task reads rollouts into an asyncio queue; it has failed, and nobody has looked at it."""

# mypy: ignore-errors
# No thread; the kind of task whose exception is never retrieved.
import asyncio
import sys

import torch
import torch.distributed as dist

WELL_FORMED = "--healthy" in sys.argv


async def rollouts(queue, rank):
    for number in range(4000):
        await asyncio.sleep(0.05)
        row = {"reward": 1.0}
        if rank == 1 and number == 12 and not WELL_FORMED:
            row = {"error": "out of range"}
        await queue.put(row["reward"])


async def learn():
    rank = dist.get_rank()
    queue = asyncio.Queue(maxsize=4)
    reader = asyncio.create_task(rollouts(queue, rank))
    for step in range(1000):
        rewards = [await queue.get() for _ in range(2)]
        await asyncio.sleep(0.2)
        total = torch.tensor(rewards).sum()
        dist.all_reduce(total)
        print(f"rank {rank} step {step}", flush=True)
    await reader


def main():
    dist.init_process_group("gloo")
    asyncio.run(learn())


if __name__ == "__main__":
    main()
