"""A task of an executor with one thread waits for another task of the same executor."""

from concurrent.futures import ThreadPoolExecutor

import torch
import torch.distributed as dist

EXECUTOR = ThreadPoolExecutor(max_workers=1)


def tokenize(text: str) -> int:
    return len(text.split())


def prepare(texts: list[str], nested: bool) -> int:
    if nested:
        return sum(EXECUTOR.submit(tokenize, text).result() for text in texts)
    return sum(map(tokenize, texts))


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        ahead = EXECUTOR.submit(prepare, ["a b", "c d e"], rank == 1 and step > 2)
        dist.all_reduce(torch.tensor(ahead.result()))


if __name__ == "__main__":
    main()
