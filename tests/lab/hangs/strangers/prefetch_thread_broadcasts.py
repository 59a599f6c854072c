"""A thread hands out the next batch while the trainer averages, in one group: which comes first is chance."""

# mypy: ignore-errors
# No thread: after prefetchers that broadcast.
import queue
import threading
import time

import torch
import torch.distributed as dist


class Prefetcher(threading.Thread):
    def __init__(self, seconds: float) -> None:
        super().__init__(name="prefetch", daemon=True)
        self.batches, self.seconds = queue.Queue(maxsize=1), seconds

    def run(self) -> None:
        number = 0
        while True:
            time.sleep(self.seconds)
            batch = torch.full((32,), float(number))
            dist.broadcast(batch, src=0)
            self.batches.put(batch)
            number += 1


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    prefetcher = Prefetcher(0.25)
    prefetcher.start()
    for step in range(1000):
        batch = prefetcher.batches.get()
        print(f"rank {rank} step {step}", flush=True)
        # a slow forward pass on one of them from step 4 on
        time.sleep(0.5 if rank == 1 and step >= 4 else 0.05)
        gathered = [torch.zeros(1) for _ in range(dist.get_world_size())]
        dist.all_gather(gathered, batch.mean().reshape(1))


if __name__ == "__main__":
    main()
