"""A batch without a positive is drawn again, and the draw agrees on its size with all others."""

# mypy: ignore-errors
# The kind of issues on samplers that resample within one process (detection, contrastive). No thread of one job.
import sys
import time

import torch
import torch.distributed as dist

ENOUGH = "--healthy" in sys.argv


class Drawer:
    def __init__(self, rank: int) -> None:
        self.rank, self.drawn = rank, 0

    def draw(self):
        """The next rows, cut to the length that all have."""
        self.drawn += 1
        rows = torch.full((4 + self.rank, 3), 1.0)
        if self.rank == 1 and self.drawn == 7 and not ENOUGH:
            rows.zero_()
        length = torch.tensor(len(rows))
        dist.all_reduce(length, op=dist.ReduceOp.MIN)
        return rows[: int(length)]

    def __iter__(self):
        for _ in range(1000):
            rows = self.draw()
            while not self.has_positive(rows):
                rows = self.draw()
            yield rows

    def has_positive(self, rows) -> bool:
        return bool((rows > 0.5).any())


def clip(gradient, largest: float):
    norm = gradient.norm()
    if norm > largest:
        gradient *= largest / norm
    return norm


def main() -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    weights = torch.ones(3)
    for step, rows in enumerate(Drawer(rank)):
        time.sleep(0.2)
        gradient = rows.mean(0) * weights
        if not torch.isfinite(gradient).all():
            continue
        parts = [torch.empty(3) for _ in range(world)]
        dist.all_gather(parts, gradient)
        gradient = sum(parts) / world
        clip(gradient, 1.0)
        weights -= 0.01 * gradient
        print(f"rank {rank} step {step}", flush=True)
        if weights.abs().max() > 1e3:
            break


if __name__ == "__main__":
    main()
