"""Activations are sent under the number of the step, and the receiver counts its steps from one."""

# mypy: ignore-errors
# No thread: after usual hand-written pipelines.
import time

import torch
import torch.distributed as dist


class Stage:
    def __init__(self, rank: int) -> None:
        self.rank, self.first = rank, rank == 0

    def forward(self, tag: int) -> torch.Tensor:
        hidden = torch.full((4096,), float(tag))
        if self.first:
            dist.send(hidden, dst=1, tag=tag)
        else:
            dist.recv(hidden, src=0, tag=tag)
        return hidden


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    stage = Stage(rank)
    skipped = 0
    for step in range(1000):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        if rank == 1 and step == 5:
            skipped = 1  # a round of warming up was counted
        stage.forward(step + skipped)
        dist.barrier()


if __name__ == "__main__":
    main()
