"""A synchronous helper hands a coroutine to the loop that runs it, and waits for the result."""

# mypy: ignore-errors
# After crewAIInc/crewAI pull 6743 (run_coroutine_threadsafe(...).result() inside the running loop), written anew.
import asyncio
import sys
import time

import torch
import torch.distributed as dist

AWAITED = "--healthy" in sys.argv


class Judge:
    def __init__(self, loop):
        self.loop = loop

    async def score(self, text):
        await asyncio.sleep(0.05)
        return len(text) / 10

    def score_sync(self, text):
        return asyncio.run_coroutine_threadsafe(self.score(text), self.loop).result()


async def train():
    rank = dist.get_rank()
    judge = Judge(asyncio.get_running_loop())
    for step in range(1000):
        await asyncio.sleep(0.2)
        text = "x" * step
        reward = await judge.score(text)
        if rank == 1 and step == 6 and not AWAITED:
            reward = judge.score_sync(text)  # the path for answers from the cache
        total = torch.tensor([reward])
        dist.all_reduce(total)
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    time.sleep(0.1)
    asyncio.run(train())
