"""Rewards come from a service that answers in turn, three seconds for each of four questions."""

import asyncio

import torch
import torch.distributed as dist


async def ask(number: int, turn: asyncio.Semaphore) -> float:
    async with turn:
        await asyncio.sleep(3)
        return number / 4


async def rewards() -> list[float]:
    turn = asyncio.Semaphore(1)
    return await asyncio.gather(*(ask(number, turn) for number in range(4)))


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        dist.all_reduce(torch.ones(1))
        print(f"rank {rank} step {step}", flush=True)
        if rank == 1 and step > 0:
            print(asyncio.run(rewards()))


if __name__ == "__main__":
    main()
