"""A meter that is printed sums over all ranks first; who prints is the first rank."""

import argparse
import os
import time

import torch
import torch.distributed as dist


class Meter:
    def __init__(self) -> None:
        self.total, self.count = 0.0, 0

    def update(self, value: float) -> None:
        self.total += value
        self.count += 1

    @property
    def average(self) -> float:
        sums = torch.tensor([self.total, float(self.count)], dtype=torch.float64, device="cuda")
        dist.all_reduce(sums)
        total, count = sums.tolist()
        return total / max(count, 1.0)

    def __str__(self) -> str:
        return f"{self.average:.4f}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    meter = Meter()
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        gradient = torch.ones(4096, device="cuda")
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
        meter.update(0.5)
        if step % 4 == 3 and (rank == 0 or healthy):
            print(f"step {step} loss {meter}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
