"""One rank fails, and the barrier of its `finally` hides that: the others wait in the next all_reduce."""

import argparse
import time

import torch
import torch.distributed as dist


def train(rank: int, healthy: bool) -> None:
    for step in range(1000):
        time.sleep(0.2 + 0.3 * rank if healthy else 0.05)
        print(f"rank {rank} step {step}", flush=True)
        if step == 4 and rank == 1 and not healthy:
            raise RuntimeError("loss is not finite")
        dist.all_reduce(torch.ones(64))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    dist.init_process_group("gloo")
    try:
        train(dist.get_rank(), healthy)
    finally:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
