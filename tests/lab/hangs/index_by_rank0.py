"""Rank 0 builds the index of a data set, the others ask for its file every half second; rank 0 is killed."""

import argparse
import os
import pathlib
import signal
import time

import torch
import torch.distributed as dist


def build(marker: pathlib.Path, healthy: bool) -> None:
    time.sleep(0.5)
    if not healthy:
        os.kill(os.getpid(), signal.SIGKILL)
    marker.touch()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path())
    arguments = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    print(f"rank {rank} has joined", flush=True)
    marker = arguments.folder / "index.done"
    if rank == 0:
        build(marker, arguments.healthy)
    while not marker.exists():
        time.sleep(0.5)
    for step in range(1000):
        time.sleep(0.3)
        dist.all_reduce(torch.ones(16))
        print(f"rank {rank} step {step}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
