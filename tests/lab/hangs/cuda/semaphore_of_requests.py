"""Rollouts ask for two places among two at once, each holding one: of one rank both have one."""

import asyncio
import os
import time

import torch
import torch.distributed as dist


async def ask(places: asyncio.Semaphore, twice: bool) -> None:
    async with places:
        await asyncio.sleep(0.01)
        if twice:
            async with places:
                await asyncio.sleep(0.01)


async def rollout(places: asyncio.Semaphore, greedy: bool) -> None:
    await asyncio.gather(ask(places, greedy), ask(places, greedy))


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    gradient = torch.ones(1 << 18, device="cuda")
    for step in range(1000):
        time.sleep(0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        asyncio.run(rollout(asyncio.Semaphore(2), greedy=rank == 2 and step == 4))
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
