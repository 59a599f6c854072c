"""A callback takes the lock that its caller has; the lock is not reentrant."""

import threading
from collections.abc import Callable

import torch
import torch.distributed as dist


class Metrics:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.values: dict[str, float] = {}
        self.listeners: list[Callable[[], None]] = []

    def update(self, name: str, value: float) -> None:
        with self.lock:
            self.values[name] = value
            for listener in self.listeners:
                listener()

    def snapshot(self) -> dict[str, float]:
        self.lock.acquire()
        try:
            return dict(self.values)
        finally:
            self.lock.release()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    metrics = Metrics()
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        dist.all_reduce(torch.ones(4))
        if rank == 2 and step == 3:
            metrics.listeners.append(lambda: print(metrics.snapshot()))
        metrics.update("loss", 0.5)


if __name__ == "__main__":
    main()
