"""A coroutine is handed to an event loop in a thread, and that thread has ended."""

import asyncio
import threading

import torch
import torch.distributed as dist


async def fetch(step: int) -> int:
    await asyncio.sleep(0.01)
    return step


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        if rank == 0 and step == 3:
            loop.call_soon_threadsafe(loop.stop)
            threading.Event().wait(0.3)
        number = asyncio.run_coroutine_threadsafe(fetch(step), loop).result()
        dist.all_reduce(torch.tensor(number))


if __name__ == "__main__":
    main()
