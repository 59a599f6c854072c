"""Rollouts are awaited together, and the answer to one of them has got lost with its producer (torchtitan pull
request 3642)."""

import asyncio
import time

import torch
import torch.distributed as dist


class Engine:
    def __init__(self) -> None:
        self.requests: asyncio.Queue[tuple[int, asyncio.Future[int]]] = asyncio.Queue()

    async def serve(self, broken: bool) -> None:
        while True:
            length, answer = await self.requests.get()
            await asyncio.sleep(0.05)
            if broken and length == 3:
                raise RuntimeError("out of KV cache blocks")
            answer.set_result(length * 2)

    async def generate(self, length: int) -> int:
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        await self.requests.put((length, answer))
        return await answer


async def collect(broken: bool) -> list[int]:
    engine = Engine()
    producer = asyncio.create_task(engine.serve(broken))
    rollouts = await asyncio.gather(*(engine.generate(length) for length in range(6)))
    producer.cancel()
    return list(rollouts)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        rollouts = asyncio.run(collect(rank == 1 and step == 5))
        rewards = torch.tensor([float(sum(rollouts))])
        dist.all_reduce(rewards)
        time.sleep(0.1)
        print(f"rank {rank} step {step} {rewards.item():.0f}", flush=True)


if __name__ == "__main__":
    main()
