"""The training is over, and one rank cannot end: a thread of it waits for work that will not come."""

import argparse
import queue
import threading
import time

import torch
import torch.distributed as dist

uploads: "queue.Queue[int]" = queue.Queue()


def uploader() -> None:
    while True:
        if uploads.get() < 0:
            return


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    threading.Thread(target=uploader, name="uploader", daemon=healthy or rank != 1).start()
    for step in range(1000 if healthy else 4):
        time.sleep(0.2 + 0.3 * rank if healthy else 0.05)
        dist.all_reduce(torch.ones(64))
        print(f"rank {rank} step {step}", flush=True)
    dist.barrier()
    dist.destroy_process_group()
    print(f"rank {rank} is done", flush=True)


if __name__ == "__main__":
    main()
