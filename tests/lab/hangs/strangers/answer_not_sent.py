"""Two processes swap their borders in one batch of sends and receives; one of them has nothing to give and leaves its
send out (NVIDIA/nccl issue 2130)."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist

SENDS_ZEROS = "--healthy" in sys.argv


def swap(border: torch.Tensor | None, peer: int) -> torch.Tensor:
    received = torch.zeros(64)
    works = [dist.P2POp(dist.irecv, received, peer)]
    if border is None and SENDS_ZEROS:
        border = torch.zeros(64)
    if border is not None:
        works.append(dist.P2POp(dist.isend, border, peer))
    for work in dist.batch_isend_irecv(works):
        work.wait()
    return received


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    field = torch.randn(32, 64)
    for step in range(1000):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        border = field[-1] if rank == 0 else field[0]
        still = rank == 1 and step == 6
        halo = swap(None if still else border.clone(), 1 - rank)
        field[0] += 0.1 * (halo - field[0])
        change = halo.abs().max()
        dist.all_reduce(change, op=dist.ReduceOp.MAX)


if __name__ == "__main__":
    main()
