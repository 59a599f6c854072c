"""A worker that is asked to end does so by an exception, and its clean-up is a collective (vllm-omni pull request
5342)."""

# mypy: ignore-errors
import argparse
import os
import signal
import threading
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


class DiffusionWorker:
    def __init__(self, rank: int, world: int) -> None:
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world))
        dist.init_process_group("gloo", rank=rank, world_size=world)
        self.rank = rank
        signal.signal(signal.SIGTERM, self._on_terminate)

    def _on_terminate(self, number: int, _frame: object) -> None:
        raise SystemExit(f"ended by signal {number}")

    def denoise(self, step: int) -> None:
        time.sleep(0.3)
        latents = torch.ones(16)
        dist.all_reduce(latents)
        print(f"rank {self.rank} step {step}", flush=True)

    def shutdown(self) -> None:
        dist.barrier()
        dist.destroy_process_group()


def worker_main(rank: int, world: int) -> None:
    worker = DiffusionWorker(rank, world)
    if rank == 1:  # somebody asks this one
        threading.Timer(2.0, os.kill, (os.getpid(), signal.SIGTERM)).start()
    try:
        for step in range(10_000):
            worker.denoise(step)
    finally:
        worker.shutdown()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--spawn", type=int, default=3)
    chosen, _ = parser.parse_known_args()
    mp.start_processes(worker_main, (chosen.spawn,), nprocs=chosen.spawn, start_method="spawn")
