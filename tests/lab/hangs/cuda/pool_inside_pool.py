"""Rows are tokenized in a pool of threads; a long row is cut and its parts go to the same pool of one thread."""

import argparse
import os
import time
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.distributed as dist

LONG = 100


def tokenize(pool: ThreadPoolExecutor, text: str) -> list[str]:
    if len(text) <= LONG:
        return text.split()
    parts = [pool.submit(str.split, text[at : at + LONG]) for at in range(0, len(text), LONG)]
    return [word for part in parts for word in part.result()]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    pool = ThreadPoolExecutor(1, "tokenize")
    gradient = torch.ones(1 << 18, device="cuda")
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        text = "a b c " * (50 if step == 4 and rank == 1 and not healthy else 5)
        tokens = pool.submit(tokenize, pool, text).result()
        dist.all_reduce(gradient.mul_(len(tokens) / 15))
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
