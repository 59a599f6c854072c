"""A rank looks every second whether a file has come which the other writes under another name."""

import os
import time

import torch
import torch.distributed as dist


def wait_for(path: str) -> None:
    while not os.path.exists(path):
        time.sleep(1)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        if step == 3:
            if rank == 0:
                open("vocab.json", "w").close()
            else:
                wait_for("vocabulary.json")
        dist.all_reduce(torch.ones(4))


if __name__ == "__main__":
    main()
