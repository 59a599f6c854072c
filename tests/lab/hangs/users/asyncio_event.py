"""Files are fetched by asyncio; one waits for an event whose task was made and never started."""

import asyncio

import torch
import torch.distributed as dist


async def fetch(name: str, ready: asyncio.Event) -> str:
    await asyncio.sleep(0.05)
    ready.set()
    return name


async def batch(step: int, forgotten: bool) -> int:
    ready = asyncio.Event()
    work = fetch(f"shard-{step}", ready)
    if not forgotten:
        await work
    await ready.wait()
    return step


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        number = asyncio.run(batch(step, rank == 1 and step == 3))
        dist.all_reduce(torch.tensor(number))


if __name__ == "__main__":
    main()
