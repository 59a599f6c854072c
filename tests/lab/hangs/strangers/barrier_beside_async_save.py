"""The barrier at the end of a save shares its group with the asynchronous save behind it (KempnerForge issue 104)."""

import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn


class CheckpointManager:
    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.pending = None

    def save(self, model: nn.Module, step: int) -> None:
        if self.pending is not None:
            self.pending.result()
        self.pending = dcp.async_save({"model": model.state_dict()}, checkpoint_id=f"step{step}")
        if self.rank == 1:
            time.sleep(1.5)  # its other files take longer
        dist.barrier()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = nn.Linear(8, 8)
    manager = CheckpointManager(rank)
    for step in range(1000):
        time.sleep(0.2)
        dist.all_reduce(torch.ones(4))
        print(f"rank {rank} step {step}", flush=True)
        if step % 4 == 3:
            manager.save(model, step)


if __name__ == "__main__":
    main()
