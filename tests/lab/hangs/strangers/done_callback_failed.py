"""A callback of the future says that the new index is there; of a task that has failed it fails itself."""

# mypy: ignore-errors
import concurrent.futures
import sys
import threading
import time

import torch
import torch.distributed as dist

HEALTHY = "--healthy" in sys.argv


class Index:
    def __init__(self, rank):
        self.rank = rank
        self.built = threading.Event()
        self.executor = concurrent.futures.ThreadPoolExecutor(1)
        self.rows = None

    def _build(self, epoch):
        time.sleep(0.1)
        if self.rank == 1 and epoch == 3 and not HEALTHY:
            raise ValueError("index: 0 rows left after filtering")
        return torch.randperm(12)

    def _publish(self, future):
        self.rows = future.result()
        self.built.set()

    def rebuild(self, epoch):
        self.built.clear()
        self.executor.submit(self._build, epoch).add_done_callback(self._publish)

    def get(self):
        self.built.wait()
        return self.rows


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    index, weight = Index(rank), torch.zeros(1)
    for epoch in range(500):
        index.rebuild(epoch)
        for row in index.get()[:4]:
            time.sleep(0.2)
            weight += row
            dist.all_reduce(weight)
            weight /= dist.get_world_size()
        print(f"rank {rank} step {epoch}", flush=True)


if __name__ == "__main__":
    main()
