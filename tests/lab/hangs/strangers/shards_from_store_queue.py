"""Rank 0 hands out the shards of an epoch through a queue of the store, one for each that is asked for, and leaves out
what is broken."""

# mypy: ignore-errors
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

SHARDS = [f"shard-{number:03d}" for number in range(12)]
BROKEN = set() if "--healthy" in sys.argv else {"shard-007"}


class Shards:
    def __init__(self, rank, world):
        self.rank, self.world = rank, world
        self.store = dist.TCPStore("127.0.0.1", 0, is_master=True, timeout=timedelta(hours=4)) if rank == 0 else None
        port = [self.store.port if self.store else None]
        dist.broadcast_object_list(port, src=0)
        if self.store is None:
            self.store = dist.TCPStore("127.0.0.1", port[0], timeout=timedelta(hours=4))

    def publish(self, epoch):
        for name in SHARDS:
            if name in BROKEN:
                continue
            self.store.queue_push(f"epoch{epoch}", name)

    def take(self, epoch):
        return self.store.queue_pop(f"epoch{epoch}").decode()


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    shards = Shards(rank, world)
    step = 0
    for epoch in range(200):
        if rank == 0:
            shards.publish(epoch)
        for _ in range(len(SHARDS) // world):
            time.sleep(0.2 + 0.1 * rank)
            print(f"rank {rank} step {step}", flush=True)
            name = shards.take(epoch)
            size = torch.tensor(float(len(name)))
            dist.all_reduce(size)
            step += 1


if __name__ == "__main__":
    main()
