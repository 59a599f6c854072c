"""code.interact was left in for the case of a loss that is not finite."""

import code
import math

import torch
import torch.distributed as dist


def check(loss: float) -> None:
    if not math.isfinite(loss):
        code.interact(local={"loss": loss})


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        check(float("nan") if rank == 1 and step == 3 else 0.5)
        dist.all_reduce(torch.ones(4))


if __name__ == "__main__":
    main()
