"""Two answers come for one request, and the second of them ends the task that reads all others (sglang pull 1825)."""

# mypy: ignore-errors
import asyncio
import time

import torch
import torch.distributed as dist


class TokenizerManager:
    def __init__(self) -> None:
        self.results: asyncio.Queue[tuple[int, str]] = asyncio.Queue()
        self.model_update_result: asyncio.Future | None = None
        self.reader: asyncio.Task | None = None

    async def handle_loop(self) -> None:
        while True:
            _scheduler, message = await self.results.get()
            self.model_update_result.set_result(message)

    async def schedulers(self, number: int, version: int) -> None:
        for scheduler in range(number):
            self.results.put_nowait((scheduler, f"updated to {version}"))

    async def update_weights(self, version: int, schedulers: int) -> str:
        if self.reader is None:
            self.reader = asyncio.create_task(self.handle_loop())
        self.model_update_result = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().create_task(self.schedulers(schedulers, version))
        return await self.model_update_result


async def train(rank: int) -> None:
    manager = TokenizerManager()
    for step in range(1000):
        await asyncio.sleep(0.2)
        dist.all_reduce(torch.ones(8))
        print(f"rank {rank} step {step}", flush=True)
        if step % 3 == 2:
            answer = await manager.update_weights(step, schedulers=2 if rank == 1 else 1)
            time.sleep(0.05)
            assert answer


if __name__ == "__main__":
    dist.init_process_group("gloo")
    asyncio.run(train(dist.get_rank()))
