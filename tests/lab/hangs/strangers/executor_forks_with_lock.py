"""A pool of processes is made while a thread holds the lock of the cache, and its worker wants that lock."""

# mypy: ignore-errors
# No thread: after a usual fork beside threads.
import multiprocessing
import threading
import time
from concurrent.futures import ProcessPoolExecutor

import torch
import torch.distributed as dist

CACHE_LOCK = threading.Lock()
CACHE: dict[int, int] = {}


def refresh() -> None:
    """Keeps the cache fresh; a round takes a while."""
    while True:
        with CACHE_LOCK:
            time.sleep(0.4)
        time.sleep(0.01)


def augment(index: int) -> int:
    with CACHE_LOCK:
        CACHE[index] = index * 2
    return CACHE[index]


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        time.sleep(0.2)
        dist.all_reduce(torch.ones(4))
        print(f"rank {rank} step {step}", flush=True)
        if step == 4 and rank == 1:
            threading.Thread(target=refresh, daemon=True).start()
            time.sleep(0.1)
            context = multiprocessing.get_context("fork")
            with ProcessPoolExecutor(2, mp_context=context) as pool:
                print(list(pool.map(augment, range(8))), flush=True)


if __name__ == "__main__":
    main()
