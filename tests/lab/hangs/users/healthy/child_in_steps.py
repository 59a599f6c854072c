"""A shell script converts files one after the other, each for four seconds, while the others wait."""

import subprocess

import torch
import torch.distributed as dist


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        dist.all_reduce(torch.ones(4))
        print(f"rank {rank} step {step}", flush=True)
        if rank == 0 and step >= 1:
            subprocess.run(["sh", "-c", "for i in 1 2 3 4 5; do sleep 4; done"], check=True)


if __name__ == "__main__":
    main()
