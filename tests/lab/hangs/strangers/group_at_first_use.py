"""A group for long waits is made where it is needed first, which is not on every rank (llm-compressor pull request
2869)."""

import contextlib
import time
from collections.abc import Iterator
from datetime import timedelta

import torch
import torch.distributed as dist


@contextlib.contextmanager
def suspended_timeout(timeout: timedelta) -> Iterator[None]:
    group = dist.new_group(backend="gloo", timeout=timeout)
    try:
        yield
    finally:
        dist.barrier(group=group)
        dist.destroy_process_group(group)


def quantize(layer: int, experts: int) -> None:
    if experts > 4:
        with suspended_timeout(timedelta(hours=3)):
            time.sleep(0.5)
    else:
        time.sleep(0.2)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        quantize(step, 8 if step == 4 and rank == 1 else 4)
        error = torch.ones(1)
        dist.all_reduce(error)
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
