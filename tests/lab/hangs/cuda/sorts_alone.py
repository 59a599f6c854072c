"""A bucket sampler sorts its samples again now and then, in Python; one rank has so many that it takes an hour."""

import argparse
import os
import time

import torch
import torch.distributed as dist


def buckets(lengths: list[int]) -> list[int]:
    order = list(range(len(lengths)))
    for end in range(len(order), 1, -1):
        for index in range(1, end):
            if lengths[order[index - 1]] > lengths[order[index]]:
                order[index - 1], order[index] = order[index], order[index - 1]
    return order


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    samples = 400_000 if rank == 1 and not healthy else 16
    gradient = torch.ones(1 << 18, device="cuda")
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        if step % 4 == 3:
            buckets([-number for number in range(samples)])
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
