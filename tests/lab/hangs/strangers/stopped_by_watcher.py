"""A watcher of the node's memory stops the process that grows, until somebody looks at it (of our own making)."""

# mypy: ignore-errors
import multiprocessing
import os
import signal
import time
from pathlib import Path

import torch
import torch.distributed as dist


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def watch(pids: list[int], limit: int) -> None:
    """Stops who has grown by more than the limit, and lets it go on when it is smaller, which it does not become."""
    begin = {pid: resident(pid) for pid in pids}
    while True:
        time.sleep(0.5)
        for pid in pids:
            if resident(pid) - begin[pid] > limit:
                os.kill(pid, signal.SIGSTOP)


def main() -> None:
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    pids = [None] * ranks
    dist.all_gather_object(pids, os.getpid())
    if rank == 0:
        multiprocessing.get_context("fork").Process(target=watch, args=(pids, 80 << 20), daemon=True).start()
    kept = []
    for step in range(1000):
        time.sleep(0.2)
        dist.all_reduce(torch.ones(4))
        print(f"rank {rank} step {step}", flush=True)
        if rank == 2:
            kept.append(torch.ones(4 << 20))  # 16 MiB


if __name__ == "__main__":
    main()
