"""One rank is told that its node will be taken, leaves the loop and saves; the others train (lightning 20825)."""

import os
import signal
import threading
import time

import torch
import torch.distributed as dist


class Preemption:
    def __init__(self) -> None:
        self.asked = False
        signal.signal(signal.SIGUSR1, self._note)

    def _note(self, number: int, frame: object) -> None:
        self.asked = True


def save(rank: int, weights: torch.Tensor) -> None:
    everything = [torch.zeros_like(weights) for _ in range(dist.get_world_size())]
    dist.all_gather(everything, weights)
    if rank == 0:
        torch.save(everything, "last.pt")


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    preemption = Preemption()
    if rank == 0:  # what slurmd does
        threading.Timer(2.0, os.kill, (os.getpid(), signal.SIGUSR1)).start()
    weights = torch.zeros(256)
    for step in range(10_000):
        time.sleep(0.2)
        weights += 1.0
        dist.all_reduce(weights)
        print(f"rank {rank} step {step}", flush=True)
        if preemption.asked:
            break
    save(rank, weights)


if __name__ == "__main__":
    main()
