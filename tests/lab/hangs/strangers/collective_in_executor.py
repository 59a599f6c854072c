"""Collectives in a thread of the loop's executor, so that the loop can go on; one process has a judge that gave up."""

# mypy: ignore-errors
import asyncio
import concurrent.futures
import sys

import torch
import torch.distributed as dist


class Judge:
    def __init__(self, rank):
        self.rank = rank

    async def score(self, sample, step):
        await asyncio.sleep(0.05)
        if self.rank == 1 and step == 5 and "--healthy" not in sys.argv:
            raise ConnectionError("the judge has closed the connection")
        return float(sample.sum())


class Learner:
    def __init__(self):
        self.rank = dist.get_rank()
        self.judge = Judge(self.rank)
        self.model = torch.nn.Linear(4, 4)
        self.executor = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="collectives")

    async def reduced(self, tensor):
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self.executor, dist.all_reduce, tensor)
        return tensor / dist.get_world_size()

    async def gathered(self, value):
        loop = asyncio.get_running_loop()
        found = [None] * dist.get_world_size()
        await loop.run_in_executor(self.executor, dist.all_gather_object, found, value)
        return found

    async def rewards(self, samples, step):
        scores = await asyncio.gather(*(self.judge.score(row, step) for row in samples), return_exceptions=True)
        return [score for score in scores if not isinstance(score, Exception)]

    async def update(self, rewards):
        advantage = torch.tensor(rewards)
        mean = await self.reduced(advantage.mean())
        self.model.zero_grad()
        self.model(torch.rand(2, 4)).mean().backward()
        for weight in self.model.parameters():
            weight.grad = await self.reduced(weight.grad * mean)

    async def run(self):
        for step in range(1000):
            await asyncio.sleep(0.2)
            samples = torch.rand(3, 4)
            print(f"rank {self.rank} step {step}", flush=True)
            rewards = await self.rewards(samples, step)
            if rewards:
                await self.update(rewards)
            counts = await self.gathered(len(rewards))
            if self.rank == 0 and step % 10 == 0:
                print("rewards", counts, flush=True)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    asyncio.run(Learner().run())
