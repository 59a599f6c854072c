"""Now and then the weights are exported by a process, which takes six seconds (training_hub pull request 133)."""

# mypy: ignore-errors
import asyncio
import multiprocessing
import time

import torch
import torch.distributed as dist


async def run_export() -> None:
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, time.sleep, 6.0)


def subprocess_entry() -> None:
    asyncio.run(run_export())


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(10_000):
        time.sleep(0.3)
        dist.all_reduce(torch.ones(8))
        print(f"rank {rank} step {step}", flush=True)
        if step % 3 == 1:
            if rank == 0:
                process = multiprocessing.get_context("fork").Process(target=subprocess_entry)
                process.start()
                process.join()
            dist.barrier()


if __name__ == "__main__":
    main()
