"""The collator pads to the longest text of all processes; one process has two files fewer."""

# mypy: ignore-errors
# No thread of one job; the kind of issues on collate functions that agree on a length.
import sys
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

EVEN = "--healthy" in sys.argv


def texts(rank: int) -> list[list[int]]:
    files = 4 if rank == 2 and not EVEN else 6
    return [[number] * (3 + number % 4) for number in range(files * 4)]


class Pads:
    def __init__(self, multiple: int) -> None:
        self.multiple = multiple

    def __call__(self, rows):
        longest = torch.tensor(max(map(len, rows)))
        dist.all_reduce(longest, op=dist.ReduceOp.MAX)
        width = -(-int(longest) // self.multiple) * self.multiple
        return torch.tensor([row + [0] * (width - len(row)) for row in rows])


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    loader = DataLoader(texts(rank), batch_size=2, collate_fn=Pads(4))
    seen = torch.zeros(1)
    for _ in range(1000):
        for step, batch in enumerate(loader):
            time.sleep(0.2)
            print(f"rank {rank} step {step}", flush=True)
            seen += batch.numel()
        dist.barrier()


if __name__ == "__main__":
    main()
