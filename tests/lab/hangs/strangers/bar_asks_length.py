"""The length of a loader is agreed on by all processes whenever it is asked for; a progress bar of the first process
asks for it."""

# mypy: ignore-errors
# No thread of one job; the kind of issues on samplers whose __len__ calls all_reduce, and tqdm.
import sys
import time

import torch
import torch.distributed as dist
from tqdm import tqdm

PLAIN = "--healthy" in sys.argv


class Batches:
    def __init__(self, rows: int, size: int) -> None:
        self.rows, self.size = rows, size

    def __len__(self) -> int:
        count = torch.tensor(float(self.rows // self.size))
        dist.all_reduce(count, op=dist.ReduceOp.MIN)
        return int(count)

    def __iter__(self):
        for number in range(self.rows // self.size):
            yield torch.full((self.size,), float(number))


def train(rank: int, epoch: int, batches: Batches) -> float:
    total = 0.0
    shown = batches if rank > 0 or epoch < 2 or PLAIN else tqdm(batches, desc=f"epoch {epoch}", file=sys.stdout)
    for batch in shown:
        time.sleep(0.1)
        mean = batch.mean()
        dist.all_reduce(mean)
        total += float(mean)
    print(f"rank {rank} step {epoch}", flush=True)
    return total


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    batches = Batches(40, 4)
    for epoch in range(100):
        train(rank, epoch, batches)
        dist.barrier()


if __name__ == "__main__":
    main()
