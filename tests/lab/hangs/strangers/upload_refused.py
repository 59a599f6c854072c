"""An upload is refused on one process, which goes on without the barrier of the others (marin issue 9213)."""

import logging
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

log = logging.getLogger("trainer")


class SlowDown(Exception):
    pass


class Bucket:
    def __init__(self, rank: int) -> None:
        self.rank, self.uploads = rank, 0

    def put(self, name: str, shard: dict[str, Any]) -> None:
        self.uploads += 1
        time.sleep(0.2)
        if self.rank == 1 and self.uploads == 2:
            raise SlowDown("please reduce your request rate")


class Strategy:
    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket

    def save_checkpoint(self, model: nn.Module, step: int) -> None:
        self.bucket.put(f"step{step}/rank{dist.get_rank()}", model.state_dict())
        dist.barrier()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(nn.Linear(32, 8))
    strategy = Strategy(Bucket(rank))
    failures = 0
    for step in range(4000):
        time.sleep(0.2)
        model(torch.randn(2, 32)).sum().backward()
        print(f"rank {rank} step {step}", flush=True)
        if step % 4 == 3:
            try:
                strategy.save_checkpoint(model, step)
            except Exception:
                failures += 1
                log.exception("checkpoint of step %d was not saved", step)


if __name__ == "__main__":
    main()
