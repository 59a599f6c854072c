"""A checkpoint is written by the first rank of each node, and the barrier behind it has slipped into that branch."""

import argparse
import os
import time

import torch
import torch.distributed as dist


def save(node: int, local: int, healthy: bool) -> None:
    if local == 0:
        with open(f"node{node}.bin", "wb") as file:
            file.write(bytes(1024))
    if healthy or local == 0:
        dist.barrier()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    node, local = divmod(rank, 2)
    gradient = torch.ones(1 << 18, device="cuda")
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
        if step % 4 == 3:
            save(node, local, healthy)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
