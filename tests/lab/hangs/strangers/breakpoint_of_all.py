"""A torch.distributed.breakpoint is left in the branch for a loss that is too high."""

# mypy: ignore-errors
# No thread of one job; the kind of torchtitan and PyTorch threads on torch.distributed.breakpoint.
import sys
import time

import torch
import torch.distributed as dist

CALM = "--healthy" in sys.argv


def inspect(loss: torch.Tensor, limit: float) -> None:
    if float(loss) > limit and not CALM:
        dist.breakpoint(0)
        print("loss", float(loss), flush=True)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        loss = torch.tensor(0.1 * step)
        dist.all_reduce(loss)
        inspect(loss, 1.1)


if __name__ == "__main__":
    main()
