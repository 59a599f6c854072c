"""Examples are drawn until one is long enough; one rank's shard has none, and it draws on and on."""

import os
import random
import time

import torch
import torch.distributed as dist


def draw(lengths: list[int], least: int) -> int:
    generator = random.Random(1)
    while True:
        length = generator.choice(lengths)
        if length >= least:
            return length


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    lengths = [12, 30, 7] if rank == 1 else [12, 30, 70]
    for step in range(1000):
        time.sleep(0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        least = 10 if step < 4 else 64
        gradient = torch.full((1 << 16,), float(draw(lengths, least)), device="cuda")
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
