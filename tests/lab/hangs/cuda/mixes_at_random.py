"""Whether a batch is mixed with those of all others is drawn by chance, and one rank's generator has its own seed."""

import argparse
import os
import random
import time

import torch
import torch.distributed as dist


def mixed(features: torch.Tensor) -> torch.Tensor:
    everybody = [torch.empty_like(features) for _ in range(dist.get_world_size())]
    dist.all_gather(everybody, features)
    return everybody[dist.get_rank() - 1]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    chance = random.Random(17 if healthy or rank != 1 else 18)
    features = torch.ones(1 << 18, device="cuda")
    gradient = torch.ones(1 << 16, device="cuda")
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        if step > 2 and chance.random() < 0.5:
            mixed(features)
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
