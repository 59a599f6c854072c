"""The main process tokenizes the next part of the data in a pool; a worker of it was killed."""

import argparse
import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist


@contextlib.contextmanager
def main_process_first() -> Iterator[None]:
    if dist.get_rank() != 0:
        dist.barrier()
    yield
    if dist.get_rank() == 0:
        dist.barrier()


def tokenize(text: str) -> list[int]:
    if text == "too much for it":
        os.kill(os.getpid(), signal.SIGKILL)
    return [len(word) for word in text.split()]


def prepare(part: int, healthy: bool) -> list[list[int]]:
    texts = ["to be or not to be"] * 64
    if part == 1 and not healthy:
        texts[10] = "too much for it"
    if dist.get_rank() != 0:
        return [[2, 2, 2, 3, 2, 2]] * 64
    with multiprocessing.Pool(2) as pool:
        return pool.map(tokenize, texts, chunksize=4)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    total = torch.zeros(8, device="cuda")
    step = 0
    for part in range(100):
        with main_process_first():
            rows = prepare(part, healthy)
        for first in range(0, len(rows), 16):
            time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
            print(f"rank {rank} step {step} begins", flush=True)
            step += 1
            total += torch.tensor(rows[first : first + 16], device="cuda").float().mean()
            dist.all_reduce(total)
        print(f"rank {rank} part {part}: {total[0].item():.2f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
