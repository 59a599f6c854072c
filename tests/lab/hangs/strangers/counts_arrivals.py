"""A barrier of somebody's own: all add one in the store and look until all are counted; who is inactive does not."""

# mypy: ignore-errors
# No thread: after barriers by store.add.
import time

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_store


class SoftBarrier:
    def __init__(self, world: int) -> None:
        self.store, self.world, self.times = _get_default_store(), world, 0

    def wait(self) -> None:
        self.times += 1
        key = f"soft/{self.times}"
        self.store.add(key, 1)
        while self.store.add(key, 0) < self.world:
            time.sleep(0.2)


def main() -> None:
    dist.init_process_group("gloo")
    rank, barrier = dist.get_rank(), SoftBarrier(dist.get_world_size())
    samples = 20 if rank == 1 else 1000
    for step in range(1000):
        time.sleep(0.2)
        dist.all_reduce(torch.ones(4))
        print(f"rank {rank} step {step}", flush=True)
        samples -= 4
        if samples <= 0:
            continue  # nothing to flush here
        if step % 2:
            barrier.wait()


if __name__ == "__main__":
    main()
