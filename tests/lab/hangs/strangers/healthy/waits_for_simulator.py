"""Rows come from a simulator in a thread, one every six seconds."""

import queue
import threading
import time

import torch
import torch.distributed as dist


def simulate(rows: queue.Queue, seed: int) -> None:
    while True:
        time.sleep(6 if rows.qsize() == 0 and seed else 0.5)
        rows.put(torch.randn(4))


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    rows: queue.Queue = queue.Queue(maxsize=2)
    for step in range(2):
        dist.all_reduce(torch.ones(1))
        print(f"rank {rank} step {step}", flush=True)
    threading.Thread(target=simulate, args=(rows, rank), daemon=True).start()
    for step in range(2, 1000):
        row = rows.get()
        dist.all_reduce(row)
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
