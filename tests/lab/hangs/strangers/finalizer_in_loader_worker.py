"""A client of an experiment tracker says goodbye when it is collected, through a thread; the workers of a data loader
have the client and not the thread (wandb/wandb issue 12079)."""

# mypy: ignore-errors
import asyncio
import gc
import sys
import threading
import time
import weakref

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

IN_PARENT_ONLY = "--healthy" in sys.argv


class Loop:
    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def run(self, coroutine) -> object:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()


class Client:
    def __init__(self, loop: Loop) -> None:
        self.me = self  # a cycle, as callbacks make them
        self.rows = list(range(100))
        weakref.finalize(self, loop.run, goodbye())


async def goodbye() -> None:
    await asyncio.sleep(0)


class Rows(Dataset):
    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.client = Client(Loop()) if rank == 1 and not IN_PARENT_ONLY else None

    def __len__(self) -> int:
        return 2000

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == 16:
            self.client = None  # its rows have been read
            gc.collect()
        return torch.full((2,), float(index))


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    weight = torch.zeros(2)
    for step, batch in enumerate(DataLoader(Rows(rank), batch_size=4, num_workers=1)):
        time.sleep(0.2)
        gradient = batch.mean(0)
        dist.all_reduce(gradient)
        weight -= 0.01 * gradient
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
