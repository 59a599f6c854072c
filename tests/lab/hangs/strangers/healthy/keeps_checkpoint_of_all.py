"""All processes save a distributed checkpoint together, and the first is slow in writing its part."""

# mypy: ignore-errors
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn


class SlowState:
    """A part of the state that takes a while to be put together."""

    def __init__(self, rank: int) -> None:
        self.rank = rank

    def state_dict(self) -> dict:
        time.sleep(3.0 if self.rank == 0 else 0.1)
        return {"position": torch.tensor([1.0])}

    def load_state_dict(self, state: dict) -> None:
        pass


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    net, reader = nn.Linear(4, 4), SlowState(rank)
    for step in range(1000):
        time.sleep(0.3)
        dist.all_reduce(torch.ones(8))
        print(f"rank {rank} step {step}", flush=True)
        if step % 4 == 3:
            dcp.save({"net": net.state_dict(), "reader": reader}, checkpoint_id="kept")


if __name__ == "__main__":
    main()
