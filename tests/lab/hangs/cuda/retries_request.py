"""A sample comes from a server; a rank that it refuses tries again, after twice the time at each try."""

import argparse
import os
import time

import torch
import torch.distributed as dist


class Refused(Exception):
    pass


class Store:
    def __init__(self, refuses_from: int) -> None:
        self.refuses_from = refuses_from

    def get(self, number: int) -> float:
        if number >= self.refuses_from:
            raise Refused(number)
        return 1.0


def fetch(store: Store, number: int, tries: int = 40) -> float:
    for attempt in range(tries):
        try:
            return store.get(number)
        except Refused:
            time.sleep(0.01 * 2**attempt)
    raise RuntimeError(f"sample {number} cannot be had")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    store = Store(refuses_from=1 << 30 if rank != 2 or healthy else 4)
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        sample = fetch(store, step)
        gradient = torch.full((4096,), sample, device="cuda")
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
