"""A pipeline of three stages: each computes for seconds while the others wait to receive."""

import time

import torch
import torch.distributed as dist


def main() -> None:
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    for step in range(1000):
        hidden = torch.ones(64)
        if rank > 0:
            dist.recv(hidden, src=rank - 1)
        time.sleep(1.5)  # stands for a stage on a GPU
        if rank < size - 1:
            dist.send(hidden, dst=rank + 1)
            dist.recv(hidden, src=rank + 1)
        if rank > 0:
            dist.send(hidden, dst=rank - 1)
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
