"""Blocks of a file are read in turns and exchanged; a read that fails ends the reading of one (mpich issue 6585)."""

# mypy: ignore-errors
import time

import torch
import torch.distributed as dist

OK, FAILED = 0, 5


class BlockFile:
    def __init__(self, rank: int) -> None:
        self.rank = rank

    def pread(self, block: int) -> torch.Tensor | None:
        """None where the disk did not give it."""
        try:
            if self.rank == 2 and block == 13:
                raise OSError(5, "Input/output error")
            return torch.full((16,), float(block))
        except OSError:
            return None


def read_all(file: BlockFile, first: int, rounds: int) -> tuple[int, list[torch.Tensor]]:
    rows = []
    for turn in range(rounds):
        block = file.pread(first + turn)
        if block is None:
            return FAILED, rows
        time.sleep(0.1)
        parts = [torch.zeros(16) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, block)
        rows.append(torch.stack(parts))
    return OK, rows


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    file, total = BlockFile(rank), torch.zeros(1)
    for step in range(1000):
        status, rows = read_all(file, step * 4, 4)
        if status != OK:
            print(f"rank {rank} read {len(rows)} blocks", flush=True)
        total += sum(float(row.sum()) for row in rows)
        dist.all_reduce(total)
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
