"""Masks are kept by the length they are for; who meets a new length makes one, as the first process has it."""

# mypy: ignore-errors
# The kind of issues on buffers that are filled lazily and synchronized when filled. No thread of one job.
import sys
import time

import torch
import torch.distributed as dist

PADDED = "--healthy" in sys.argv


class Attention:
    def __init__(self) -> None:
        self.masks: dict[int, torch.Tensor] = {}

    def mask(self, length: int):
        if length not in self.masks:
            mask = torch.tril(torch.ones(length, length))
            dist.all_reduce(mask, op=dist.ReduceOp.MAX)
            self.masks[length] = mask
        return self.masks[length]

    def __call__(self, rows):
        scores = rows @ rows.T
        return (scores * self.mask(len(rows))).sum()


def lengths(rank: int, step: int) -> int:
    return 6 if PADDED or rank == 0 or step < 5 else 6 + step % 3


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    layer = Attention()
    nans = 0
    for step in range(1000):
        time.sleep(0.2)
        rows = torch.rand(lengths(rank, step), 4)
        loss = layer(rows)
        if torch.isnan(loss):
            nans += 1
            if nans > 10:
                break
            continue
        everywhere = [None] * dist.get_world_size()
        dist.all_gather_object(everywhere, loss.item())
        print(f"rank {rank} step {step} {sum(everywhere):.2f}", flush=True)


if __name__ == "__main__":
    main()
