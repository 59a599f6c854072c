"""A thread prefetches from a slow source; the loop takes from its queue and waits seconds for each."""

import queue
import threading
import time

import torch
import torch.distributed as dist


def fill(batches: "queue.Queue[torch.Tensor]") -> None:
    while True:
        time.sleep(3.5)
        batches.put(torch.ones(4))


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    batches: queue.Queue[torch.Tensor] = queue.Queue(2)
    threading.Thread(target=fill, args=(batches,), daemon=True).start()
    for step in range(1000):
        dist.all_reduce(batches.get())
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
