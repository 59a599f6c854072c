"""Rank 0 converts each second checkpoint by a program of its own, which waits for its standard input."""

import os
import subprocess
import sys
import time

import torch
import torch.distributed as dist


def convert(name: str) -> None:
    program = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    print(f"converting {name}", flush=True)
    program.wait()


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    gradient = torch.ones(1 << 18, device="cuda")
    for step in range(1000):
        time.sleep(0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
        if rank == 0 and step == 4:
            convert("checkpoint-4")
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
