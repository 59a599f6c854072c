"""The save before must be through before the next; where it has failed its exception is raised ahead of the barrier
(VeOmni pull request 1181)."""

# mypy: ignore-errors
import logging
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor

import torch
import torch.distributed as dist

DISK_IS_FULL = "--healthy" not in sys.argv


def write(rank: int, step: int, state: dict) -> None:
    time.sleep(0.2)
    if DISK_IS_FULL and rank == 2 and step == 4:
        raise OSError(28, "No space left on device")


class Checkpointer:
    def __init__(self) -> None:
        self.executor = ThreadPoolExecutor(1)
        self.pending: Future | None = None

    def drain(self) -> None:
        if self.pending is None:
            return
        pending, self.pending = self.pending, None
        pending.result()
        dist.barrier()

    def save(self, step: int, state: dict) -> None:
        self.drain()
        self.pending = self.executor.submit(write, dist.get_rank(), step, state)


class Callback:
    def __init__(self) -> None:
        self.checkpointer = Checkpointer()

    def on_step_end(self, step: int, state: dict) -> None:
        if step % 2:
            return
        try:
            self.checkpointer.save(step, state)
        except OSError as error:
            logging.warning("could not save: %s", error)


def main() -> None:
    dist.init_process_group("gloo")
    rank, callback, weight = dist.get_rank(), Callback(), torch.zeros(8)
    for step in range(1000):
        time.sleep(0.3)
        print(f"rank {rank} step {step}", flush=True)
        gradients = [torch.zeros(8) for _ in range(dist.get_world_size())]
        dist.all_gather(gradients, torch.randn(8))
        weight -= 0.01 * torch.stack(gradients).mean(0)
        callback.on_step_end(step, {"weight": weight})


if __name__ == "__main__":
    main()
