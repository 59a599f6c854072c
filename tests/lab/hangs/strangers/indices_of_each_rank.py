"""Every third file belongs to a process, and the number of files is not a multiple (dlio_benchmark request 339)."""

# mypy: ignore-errors
import time

import torch
import torch.distributed as dist

FILES, BATCH = 47, 4


class Reader:
    def __init__(self, rank: int, world: int) -> None:
        self.mine = list(range(FILES))[rank::world]

    def next(self):
        """Whole batches only."""
        for begin in range(0, len(self.mine) - BATCH + 1, BATCH):
            yield torch.tensor(self.mine[begin : begin + BATCH], dtype=torch.float)


def run_epoch(reader: Reader, rank: int, epoch: int) -> None:
    for step, files in enumerate(reader.next()):
        time.sleep(0.2)
        files.mean()
        print(f"rank {rank} epoch {epoch} step {step}", flush=True)
        dist.barrier()


def main() -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    reader = Reader(rank, world)
    for epoch in range(100):
        run_epoch(reader, rank, epoch)
        seen = torch.tensor([len(reader.mine)])
        dist.all_reduce(seen)


if __name__ == "__main__":
    main()
