"""A batch of sends and receives has one receive more on one side (nccl issue 2130)."""

# mypy: ignore-errors
import os
import time

import torch
import torch.distributed as dist


class RingAttention:
    def __init__(self, rank: int) -> None:
        self.rank, self.peer = rank, 1 - rank

    def _exchange(self, sends: int, receives: int) -> None:
        kept = [torch.ones(8) for _ in range(sends)]
        come = [torch.empty(8) for _ in range(receives)]
        operations = [dist.P2POp(dist.isend, block, self.peer) for block in kept]
        operations += [dist.P2POp(dist.irecv, block, self.peer) for block in come]
        for request in dist.batch_isend_irecv(operations):
            request.wait()

    def forward(self, lengths: list[int]) -> None:
        mine, theirs = lengths[self.rank], lengths[self.peer]
        self._exchange(mine, theirs)
        if self.rank == 0 and mine % 2:
            self._exchange(1, 1)  # the odd block goes there and back
        elif mine % 2 or lengths[self.peer] % 2:
            self._exchange(0, 1)


def main() -> None:
    dist.init_process_group("gloo")
    rank = int(os.environ["RANK"])
    attention = RingAttention(rank)
    for step in range(1000):
        time.sleep(0.2)
        attention.forward([2, 2] if step < 6 else [3, 2])
        dist.barrier()
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
