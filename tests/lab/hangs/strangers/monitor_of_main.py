"""The first process watches the memory of all in a thread; the others have no such thread."""

# mypy: ignore-errors
# No thread: after monitors that gather.
import threading
import time

import torch
import torch.distributed as dist


class MemoryMonitor(threading.Thread):
    def __init__(self, seconds: float) -> None:
        super().__init__(name="memory-monitor", daemon=True)
        self.seconds = seconds

    def run(self) -> None:
        while True:
            time.sleep(self.seconds)
            used = [torch.zeros(1) for _ in range(dist.get_world_size())]
            dist.all_gather(used, torch.tensor([512.0]))
            print("memory", int(torch.cat(used).max()), flush=True)


def main() -> None:
    dist.init_process_group("gloo")
    rank, weight = dist.get_rank(), torch.ones(16)
    if rank == 0:
        MemoryMonitor(2.0).start()
    for step in range(1000):
        time.sleep(0.3)
        dist.all_reduce(weight)
        weight /= dist.get_world_size()
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
