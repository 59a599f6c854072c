"""A thread of each process gathers what memory is used, in a group that nothing else uses."""

# mypy: ignore-errors
import threading
import time

import torch
import torch.distributed as dist


class MemoryMonitor(threading.Thread):
    def __init__(self, group) -> None:
        super().__init__(name="memory-monitor", daemon=True)
        self.group = group

    def run(self) -> None:
        while True:
            time.sleep(1.5)
            used = [torch.zeros(1) for _ in range(dist.get_world_size())]
            dist.all_gather(used, torch.tensor([512.0]), group=self.group)


def main() -> None:
    dist.init_process_group("gloo")
    rank, weight = dist.get_rank(), torch.ones(16)
    MemoryMonitor(dist.new_group()).start()
    for step in range(1000):
        time.sleep(0.3 + 0.3 * rank)
        dist.all_reduce(weight)
        weight /= dist.get_world_size()
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
