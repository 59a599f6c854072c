"""Rank 0 scores texts with an expression for seconds now and then, and the others wait (dolma pull request 284)."""

import re
import time

import torch
import torch.distributed as dist

WORDS = re.compile(r"\b(\w+)\b(?=.*\b\1\b)")
TEXT = " ".join(f"word{number}" for number in range(900))


def repeats(seconds: float) -> int:
    until, seen = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        seen += len(WORDS.findall(TEXT))
    return seen


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        time.sleep(0.3)
        if rank == 0 and step > 1 and step % 4 == 2:
            repeats(5.0)
        dist.all_reduce(torch.ones(4))
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
