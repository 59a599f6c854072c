"""A checkpoint is written by a pool's thread, which needs the lock that the loop holds while it waits for it."""

import argparse
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.distributed as dist


class Checkpoints:
    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(1)
        self.lock = threading.Lock()
        self.kept: list[int] = []

    def write(self, step: int) -> None:
        with self.lock:
            self.kept.append(step)

    def prune(self, step: int) -> None:
        writing = self.pool.submit(self.write, step)
        with self.lock:
            del self.kept[:-3]
        writing.result()

    def rotate(self, step: int) -> None:
        with self.lock:
            writing = self.pool.submit(self.write, step)
            del self.kept[:-3]
            writing.result()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    checkpoints = Checkpoints()
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        if rank == 0 and step % 5 == 4:
            if healthy:
                checkpoints.prune(step)
            else:
                checkpoints.rotate(step)
        gradient = torch.ones(1 << 18, device="cuda")
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
