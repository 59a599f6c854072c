"""Decoders share two slots of a semaphore; on one rank two of them were killed, and their slots never come back."""

import argparse
import multiprocessing
import os
import time
from multiprocessing.synchronize import Semaphore

import torch
import torch.distributed as dist


def decode(slots: Semaphore) -> None:
    with slots:
        time.sleep(100_000)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    spawned = multiprocessing.get_context("spawn")
    slots = spawned.Semaphore(2)
    if rank == 1 and not healthy:
        workers = [spawned.Process(target=decode, args=(slots,), daemon=True) for _ in range(2)]
        for worker in workers:
            worker.start()
    gradient = torch.ones(1 << 18, device="cuda")
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        if rank == 1 and not healthy and step == 4:
            while slots.get_value():
                time.sleep(0.1)
            for worker in workers:
                worker.kill()
        with slots:
            gradient.mul_(0.5)
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
