"""A search for a step size that ends by break where it has found one; whoever finds none asks the others."""

# mypy: ignore-errors
# No thread; the kind of loop that has an else.
import sys
import time

import torch
import torch.distributed as dist

EASY = "--healthy" in sys.argv


def fits(size, roughness):
    return size * roughness < 1.0


def step_size(roughness):
    for size in (0.8, 0.4, 0.2, 0.1):
        if fits(size, roughness):
            break
    else:
        sizes = [None] * dist.get_world_size()
        dist.all_gather_object(sizes, 1.0 / roughness)
        size = min(sizes)
    return size


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    weights = torch.zeros(9)
    for step in range(1000):
        time.sleep(0.2)
        grad = torch.rand(9)
        dist.all_reduce(grad)
        rough = 3.0 if EASY or rank == 0 or step != 6 else 40.0
        weights -= step_size(rough) * grad
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
