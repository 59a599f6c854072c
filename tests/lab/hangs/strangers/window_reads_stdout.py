"""A window starts the training and reads what it prints, but not its errors (sd-scripts issue 536)."""

import argparse
import logging
import os
import subprocess
import sys
import time

import torch
import torch.distributed as dist

log = logging.getLogger("train")


def window(ranks: int) -> None:
    """What the user has clicked on."""
    children = []
    for rank in range(ranks):
        environment = {**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks)}
        pipe = subprocess.PIPE if rank == 0 else None
        children.append(subprocess.Popen([sys.executable, __file__], env=environment, stderr=pipe))
    for child in children:
        child.wait()


def train() -> None:
    logging.basicConfig(level=logging.INFO)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    total = torch.zeros(1)
    for step in range(100_000):
        time.sleep(0.02)
        dist.all_reduce(total)
        if rank == 0:
            log.info("step %d: %s", step, ", ".join(f"layer{i}.norm {step * i % 7}" for i in range(100)))
        if step < 4:
            print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--spawn", type=int, default=0)
    chosen, _ = parser.parse_known_args()
    if chosen.spawn:
        window(chosen.spawn)
    else:
        train()
