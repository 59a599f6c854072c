"""Rank 1 writes its debug output into a filter that does not read any more."""

import subprocess

import torch
import torch.distributed as dist


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    viewer = subprocess.Popen(["sleep", "100000"], stdin=subprocess.PIPE, text=True)
    assert viewer.stdin is not None
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        dist.all_reduce(torch.ones(4))
        if rank == 1 and step == 3:
            for layer in range(10_000):
                viewer.stdin.write(f"layer {layer}: 0.12345 0.2345 0.3456\n")


if __name__ == "__main__":
    main()
