"""A meter sums over all ranks when it is thrown away; on one rank a list of the worst steps still holds it."""

import argparse
import os
import time

import torch
import torch.distributed as dist


class Meter:
    def __init__(self) -> None:
        self.total = torch.zeros(16, device="cuda")

    def __del__(self) -> None:
        if dist.is_initialized():
            dist.all_reduce(self.total)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    worst: list[Meter] = []
    gradient = torch.ones(1 << 18, device="cuda")
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        meter = Meter()
        if rank == 1 and step == 4 and not healthy:
            worst.append(meter)
        del meter
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
