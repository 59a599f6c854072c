"""The weights are exported in a process, whose event loop waits for a thread when it is closed (training_hub pull
request 133)."""

# mypy: ignore-errors
import asyncio
import multiprocessing
import queue
import time

import torch
import torch.distributed as dist

REQUESTS: "queue.Queue[str]" = queue.Queue()


def engine_core() -> None:
    """As an engine does, until somebody asks."""
    while (request := REQUESTS.get()) != "stop":
        print("request", request)


async def run_export(step: int) -> None:
    loop = asyncio.get_running_loop()
    loop.run_in_executor(None, engine_core)
    await asyncio.sleep(0.2)
    print("exported", step, flush=True)


def subprocess_entry(step: int) -> None:
    asyncio.run(run_export(step))


def export(step: int) -> None:
    proc = multiprocessing.get_context("fork").Process(target=subprocess_entry, args=(step,))
    proc.start()
    proc.join()
    print("exit status", proc.exitcode, flush=True)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    weights = torch.ones(64)
    for step in range(8):
        time.sleep(0.2)
        dist.all_reduce(weights)
        print(f"rank {rank} step {step}", flush=True)
    if rank == 0:
        export(step)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
