"""Progress bars of several processes share a lock, and one of them is killed while it writes (tqdm issue 1500)."""

# mypy: ignore-errors
import multiprocessing
import os
import signal
import sys
import time

import torch
import torch.distributed as dist

FORK = multiprocessing.get_context("fork")


class Bar:
    lock = FORK.RLock()

    def __init__(self, name: str) -> None:
        self.name, self.n = name, 0

    def update(self) -> None:
        with self.lock:
            self.n += 1
            sys.stderr.write(f"\r{self.name}: {self.n}")
            sys.stderr.flush()


def tokenize(shard: int, heavy: bool) -> None:
    bar = Bar(f"shard {shard}")
    for document in range(20):
        time.sleep(0.1)
        bar.update()
        if heavy and document == 12:
            with bar.lock:
                os.kill(os.getpid(), signal.SIGKILL)  # where the kernel's killer came


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    helpers = [FORK.Process(target=tokenize, args=(shard, rank == 1), daemon=True) for shard in range(1)]
    for helper in helpers:
        helper.start()
    bar = Bar("train")
    for step in range(1000):
        time.sleep(0.3)
        dist.all_reduce(torch.ones(4))
        print(f"rank {rank} step {step}", flush=True)
        bar.update()


if __name__ == "__main__":
    main()
