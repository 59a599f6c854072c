"""A group is made by its members alone, and then one by all: by then they no longer count their groups alike."""

import argparse
import os
import time

import torch
import torch.distributed as dist


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    total = torch.ones(1024, device="cuda")
    for step in range(3):
        time.sleep(0.3 if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        dist.all_reduce(total)
        torch.cuda.synchronize()
    pair = None
    if healthy or rank < 2:
        pair = dist.new_group([0, 1])
    everybody = dist.new_group([0, 1, 2])
    for step in range(3, 1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        if rank < 2:
            dist.all_reduce(total, group=pair)
        dist.all_reduce(total, group=everybody)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
