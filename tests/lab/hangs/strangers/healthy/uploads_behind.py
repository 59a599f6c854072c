"""Metrics go through a queue to a thread that uploads them slowly; training does not wait for it."""

import queue
import threading
import time

import torch
import torch.distributed as dist


def upload(waiting: "queue.Queue[dict[str, float]]") -> None:
    while True:
        waiting.get()
        time.sleep(3.0)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    waiting: queue.Queue[dict[str, float]] = queue.Queue()
    if rank == 0:
        threading.Thread(target=upload, args=(waiting,), daemon=True).start()
    loss = torch.ones(1)
    for step in range(10_000):
        time.sleep(1.0)
        dist.all_reduce(loss)
        if rank == 0:
            waiting.put({"loss": loss.item()})
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
