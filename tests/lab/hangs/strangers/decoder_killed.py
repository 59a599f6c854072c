"""A process that decodes images is killed, and its queue is read without a time-out (ami-data-companion issue 140)."""

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist


def decode(output: Any, rank: int) -> None:
    for number in range(100_000):
        if rank == 1 and number == 9:
            os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does where memory is short
        output.put([float(number)] * 8)


class Prefetcher:
    def __init__(self, rank: int) -> None:
        context = multiprocessing.get_context("fork")
        self.queue = context.Queue(maxsize=2)
        self.process = context.Process(target=decode, args=(self.queue, rank), daemon=True)
        self.process.start()

    def __iter__(self) -> Iterator[torch.Tensor]:
        while True:
            image = self.queue.get()
            yield torch.tensor(image)


def main() -> None:
    rank = int(os.environ["RANK"])
    images = Prefetcher(rank)
    dist.init_process_group("gloo")
    for step, image in enumerate(images):
        time.sleep(0.2)
        dist.all_reduce(image)
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
