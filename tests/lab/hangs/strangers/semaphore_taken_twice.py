"""asyncio: so many requests at once; who is redirected asks again while it holds its place."""

# mypy: ignore-errors
import asyncio
import sys
import time

import torch
import torch.distributed as dist


class Client:
    def __init__(self, rank, places):
        self.rank, self.places = rank, asyncio.Semaphore(places)

    async def get(self, step, name, hops=0):
        async with self.places:
            await asyncio.sleep(0.02)
            moved = step == 5 and self.rank == 1 and hops == 0 and "--healthy" not in sys.argv
            if moved:
                return await self.get(step, f"{name}/moved", hops + 1)
            return float(len(name))


async def shards(rank, step):
    client = Client(rank, 3)
    return await asyncio.gather(*(client.get(step, f"shard-{number}") for number in range(3)))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(2000):
        time.sleep(0.2)
        lengths = torch.tensor(asyncio.run(shards(rank, step)))
        print(f"rank {rank} step {step}", flush=True)
        dist.all_reduce(lengths)


if __name__ == "__main__":
    main()
