"""Workers of a loader take names from a queue that a thread of the trainer fills; the thread is through."""

# mypy: ignore-errors
# No thread: after data sets that are fed by a queue.
import multiprocessing
import threading
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, IterableDataset


class Fed(IterableDataset):
    def __init__(self, names) -> None:
        self.names = names

    def __iter__(self):
        while True:
            name = self.names.get()
            yield torch.full((2,), float(name))


def feed(names, count: int) -> None:
    for number in range(count):
        names.put(number)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    names = multiprocessing.Queue()
    count = 12 if rank == 1 else 4000
    threading.Thread(target=feed, args=(names, count), daemon=True).start()
    loader = DataLoader(Fed(names), batch_size=2, num_workers=1)
    for step, batch in enumerate(loader):
        time.sleep(0.3)
        dist.all_reduce(batch)
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
