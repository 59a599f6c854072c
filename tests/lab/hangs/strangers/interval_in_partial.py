"""What is done between steps is bound with functools.partial, with an interval that each process has worked out."""

# mypy: ignore-errors
import functools
import sys
import time

import torch
import torch.distributed as dist


def average(weight, step, every):
    if (step + 1) % every:
        return
    dist.all_reduce(weight)
    weight /= dist.get_world_size()


def decay(weight, step, rate):
    weight *= 1 - rate


def interval(memory):
    return max(1, memory // 16)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    memory = 64 if rank == 0 or "--healthy" in sys.argv else 48
    after = [functools.partial(decay, rate=0.01), functools.partial(average, every=interval(memory))]
    weight = torch.rand(6)
    for step in range(2000):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        weight += 0.01
        for action in after:
            action(weight, step)
        if step % 6 == 5:
            dist.barrier()


if __name__ == "__main__":
    main()
