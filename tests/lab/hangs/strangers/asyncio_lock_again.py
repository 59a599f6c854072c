"""Rollouts are saved by coroutines; what has a lock calls what wants the same lock, when the buffer is full."""

# mypy: ignore-errors
# No thread of one job; after usual questions on asyncio.Lock, which is not reentrant.
import asyncio
import sys
import time

import torch
import torch.distributed as dist

LARGE = 10**6 if "--healthy" in sys.argv else 12


class Buffer:
    def __init__(self, room: int) -> None:
        self.room, self.rows, self.lock = room, [], asyncio.Lock()

    async def add(self, row: float) -> None:
        async with self.lock:
            self.rows.append(row)
            if len(self.rows) >= self.room:
                await self.flush()

    async def flush(self) -> None:
        async with self.lock:
            await asyncio.sleep(0.01)
            self.rows.clear()


async def rollout(buffer: Buffer, step: int) -> float:
    rewards = [float(number * step % 3) for number in range(3)]
    await asyncio.gather(*(buffer.add(reward) for reward in rewards))
    return sum(rewards)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    buffer = Buffer(LARGE if rank == 0 else 10**6)
    runner = asyncio.new_event_loop()
    for step in range(1000):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        reward = torch.tensor([runner.run_until_complete(rollout(buffer, step))])
        dist.all_reduce(reward)


if __name__ == "__main__":
    main()
