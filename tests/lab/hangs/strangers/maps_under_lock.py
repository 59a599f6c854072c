"""Whoever has the lock of the cache maps the texts in processes; the next one reads what has been made."""

# mypy: ignore-errors
# The kind of https://github.com/huggingface/datasets/issues/610: a map in processes below a lock of files.
import multiprocessing
import os
import pathlib
import signal
import sys
import time

import filelock
import torch
import torch.distributed as dist

HEALTHY = "--healthy" in sys.argv


def encode(text):
    time.sleep(0.05)
    if text == "text 21" and not HEALTHY:
        os.kill(os.getpid(), signal.SIGKILL)  # as by the kernel, for want of memory
    return [ord(letter) % 50 for letter in text]


def cached(part):
    path = pathlib.Path(f"tokens-{part}.pt")
    with filelock.FileLock(f"{path}.lock"):
        if not path.exists():
            texts = [f"text {part * 10 + number}" for number in range(6)]
            with multiprocessing.get_context("fork").Pool(2) as pool:
                rows = pool.map(encode, texts)
            torch.save(rows, path)
    return torch.load(path)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for part in range(200):
        if part == 2 and rank == 1:
            time.sleep(0.5)
        rows = cached(part)
        total = torch.tensor(float(len(rows)))
        for _ in range(4):
            time.sleep(0.2)
            dist.all_reduce(total)
        print(f"rank {rank} step {part}", flush=True)


if __name__ == "__main__":
    main()
