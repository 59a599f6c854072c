"""A consumer takes items of an asyncio queue and does not say task_done for those that it skips."""

import asyncio

import torch.distributed as dist


async def consume(items: "asyncio.Queue[int]", skip: int) -> None:
    while True:
        item = await items.get()
        if item == skip:
            continue
        items.task_done()


async def work(skip: int) -> None:
    items: asyncio.Queue[int] = asyncio.Queue()
    consumer = asyncio.create_task(consume(items, skip))
    for item in range(5):
        items.put_nowait(item)
    await items.join()
    consumer.cancel()


def main() -> None:
    dist.init_process_group("gloo")
    r = dist.get_rank()
    for step in range(1000):
        print(f"rank {r} step {step}", flush=True)
        asyncio.run(work(skip=4 if r == 0 and step == 3 else -1))
        dist.barrier()


if __name__ == "__main__":
    main()
