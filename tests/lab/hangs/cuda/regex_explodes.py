"""Texts are cleaned by a regular expression; on one rank a line of dots makes it try all ways of cutting it."""

import argparse
import os
import re
import time

import torch
import torch.distributed as dist

ELLIPSIS = re.compile(r"(\.+)+$")


def clean(text: str) -> int:
    return len(ELLIPSIS.sub(" ", text).split())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    gradient = torch.ones(1 << 18, device="cuda")
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        dots = 40 if step == 4 and rank == 1 and not healthy else 4
        words = clean("see " + "." * dots + "!")
        dist.all_reduce(gradient)
        print(f"rank {rank} {words} of step {step}, loss {gradient[0].item():.2f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
