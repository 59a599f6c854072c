"""Threads that prepare parts of a batch meet at a barrier, and one of them has failed."""

# mypy: ignore-errors
# No thread: after a usual preparation of batches by threads.
import threading
import time

import torch
import torch.distributed as dist

PARTS = 3


class Assembler:
    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.parts = [torch.zeros(4)] * PARTS
        self.ready = threading.Barrier(PARTS + 1)

    def _part(self, number: int, step: int) -> None:
        if (self.rank, number, step) == (1, 2, 5):
            raise ValueError("cannot decode frame 17")
        self.parts[number] = torch.full((4,), float(number))
        self.ready.wait()

    def batch(self, step: int) -> torch.Tensor:
        for number in range(PARTS):
            threading.Thread(target=self._part, args=(number, step), daemon=True).start()
        self.ready.wait()
        return torch.cat(self.parts)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    assembler = Assembler(rank)
    for step in range(1000):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        rows = assembler.batch(step)
        dist.all_reduce(rows)


if __name__ == "__main__":
    main()
