"""Rewards are asked for by coroutines, and a batcher answers them once its batch is full; the last of a step may never
fill one."""

# mypy: ignore-errors
import asyncio
import sys
import time

import torch
import torch.distributed as dist


class Batcher:
    def __init__(self, size):
        self.size, self.waiting = size, []

    async def score(self, text):
        future = asyncio.get_running_loop().create_future()
        self.waiting.append((text, future))
        if len(self.waiting) == self.size:
            batch, self.waiting = self.waiting, []
            asyncio.get_running_loop().call_later(0.05, self.answer, batch)
        return await future

    def answer(self, batch):
        for text, future in batch:
            future.set_result(float(len(text)))


async def rewards(texts):
    batcher = Batcher(size=4)
    tasks = [asyncio.create_task(batcher.score(text)) for text in texts]
    done = []
    for task in tasks:
        done.append(await task)
    return done


def texts_of(rank, step):
    texts = [f"answer {number}" for number in range(8)]
    empty = rank == 1 and step == 6 and "--healthy" not in sys.argv
    return texts[:-1] if empty else texts


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(2000):
        time.sleep(0.2)
        found = asyncio.run(rewards(texts_of(rank, step)))
        mean = torch.tensor(sum(found) / len(found))
        dist.all_reduce(mean)
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
