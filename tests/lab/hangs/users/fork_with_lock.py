"""A process is forked while another thread has a lock that the child needs at once."""

import multiprocessing
import threading
import time

import torch
import torch.distributed as dist

CONFIG_LOCK = threading.Lock()


def refresh() -> None:
    while True:
        with CONFIG_LOCK:
            time.sleep(0.3)
        time.sleep(0.05)


def evaluate() -> None:
    with CONFIG_LOCK:
        print("evaluates")


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if rank == 0:
        threading.Thread(target=refresh, daemon=True).start()
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        if rank == 0 and step == 3:
            time.sleep(0.1)
            while not CONFIG_LOCK.locked():
                time.sleep(0.01)
            evaluator = multiprocessing.get_context("fork").Process(target=evaluate)
            evaluator.start()
            evaluator.join()
        dist.all_reduce(torch.ones(4))


if __name__ == "__main__":
    main()
