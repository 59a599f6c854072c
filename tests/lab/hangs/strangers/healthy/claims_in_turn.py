"""Ranks claim a file in turn by making another one, each for a second (tox-dev/filelock issue 73)."""

import os
import time

import torch
import torch.distributed as dist


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        time.sleep(0.2)
        while True:
            try:
                os.close(os.open("shared.lock", os.O_CREAT | os.O_EXCL))
                break
            except FileExistsError:
                time.sleep(0.3)
        time.sleep(1.0)
        os.unlink("shared.lock")
        dist.all_reduce(torch.ones(4))
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
