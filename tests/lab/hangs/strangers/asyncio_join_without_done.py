"""Documents are fetched by tasks that take them from a queue; of an empty one nobody says that it is done."""

# mypy: ignore-errors
import asyncio
import sys
import time

import torch
import torch.distributed as dist


class Fetcher:
    def __init__(self, rank):
        self.rank, self.lengths = rank, []

    async def work(self, queue):
        while True:
            text = await queue.get()
            await asyncio.sleep(0.05)
            if not text:
                continue
            self.lengths.append(len(text))
            queue.task_done()

    async def fetch(self, texts):
        queue = asyncio.Queue()
        for text in texts:
            queue.put_nowait(text)
        tasks = [asyncio.create_task(self.work(queue)) for _ in range(2)]
        await queue.join()
        for task in tasks:
            task.cancel()

    def batch(self, step):
        texts = [f"document {step} {number}" for number in range(4)]
        if (self.rank, step) == (1, 6) and "--healthy" not in sys.argv:
            texts[2] = ""
        asyncio.run(self.fetch(texts))
        return torch.tensor(float(sum(self.lengths)))


def main():
    dist.init_process_group("gloo")
    fetcher = Fetcher(dist.get_rank())
    for step in range(2000):
        time.sleep(0.2)
        dist.all_reduce(fetcher.batch(step))
        print(f"rank {fetcher.rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
