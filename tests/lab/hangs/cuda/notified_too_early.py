"""A thread fills the next batch and notifies; on one rank it did so before anybody waited, and does not do it again."""

import argparse
import os
import threading
import time

import torch
import torch.distributed as dist


class Buffer:
    def __init__(self) -> None:
        self.full = threading.Condition()

    def fill(self, seconds: float) -> None:
        time.sleep(seconds)
        with self.full:
            self.full.notify()

    def wait(self) -> None:
        with self.full:
            self.full.wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    buffer = Buffer()
    gradient = torch.ones(1 << 18, device="cuda")
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        early = step == 4 and rank == 2 and not healthy
        filler = threading.Thread(target=buffer.fill, args=(0.0 if early else 0.2,))
        filler.start()
        if early:
            time.sleep(0.3)  # the last batch's metrics are written
        buffer.wait()
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
