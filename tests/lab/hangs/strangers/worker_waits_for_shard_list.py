"""Workers of a loader ask the store of the job which shards are theirs; one process publishes under another epoch."""

# mypy: ignore-errors
# No thread: a TCPStore that is used by workers of a DataLoader.
import datetime
import sys
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, IterableDataset

COUNTS_FROM = 1 if "--healthy" not in sys.argv else 0


class Shards(IterableDataset):
    def __init__(self, rank: int, port: int) -> None:
        self.rank, self.port, self.epoch = rank, port, 0

    def __iter__(self):
        store = dist.TCPStore("127.0.0.1", self.port, is_master=False, timeout=datetime.timedelta(hours=1))
        names = store.get(f"shards/{self.rank}/{self.epoch}").decode().split(",")
        for name in names:
            yield torch.full((3,), float(len(name)))


def publish(store, rank: int, epoch: int) -> None:
    names = ",".join(f"train-{number:05d}.tar" for number in range(4))
    number = epoch + COUNTS_FROM if rank == 1 and epoch == 1 else epoch
    store.set(f"shards/{rank}/{number}", names)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    data = Shards(rank, store.port)
    step, weight = 0, torch.zeros(3)
    for epoch in range(200):
        data.epoch = epoch
        publish(store, rank, epoch)
        for batch in DataLoader(data, batch_size=1, num_workers=1):
            time.sleep(0.3)
            print(f"rank {rank} step {step}", flush=True)
            gradient = batch.mean(0)
            dist.all_reduce(gradient)
            weight -= 0.1 * gradient
            step += 1


if __name__ == "__main__":
    main()
