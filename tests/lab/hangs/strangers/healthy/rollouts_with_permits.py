"""Roll-outs take a permit each and give it back, whatever comes of them; some take long."""

# mypy: ignore-errors
import asyncio

import torch
import torch.distributed as dist


async def complete(permits: asyncio.Semaphore, number: int, rank: int) -> float:
    async with permits:
        await asyncio.sleep(0.4 + 0.6 * rank)
        return float(number)


async def train(rank: int) -> None:
    permits = asyncio.Semaphore(2)
    for step in range(1000):
        rewards = await asyncio.gather(*(complete(permits, number, rank) for number in range(6)))
        dist.all_reduce(torch.tensor([sum(rewards)]))
        print(f"rank {rank} step {step}", flush=True)


def main() -> None:
    dist.init_process_group("gloo")
    asyncio.run(train(dist.get_rank()))


if __name__ == "__main__":
    main()
