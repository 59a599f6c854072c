"""One rank has what it wants and leaves with status 0; the others go on."""

import argparse
import sys
import time

import torch
import torch.distributed as dist


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    gradient = torch.zeros(64)
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        if step == 3 and rank == 1 and not healthy:
            sys.exit()
        dist.all_reduce(gradient)
        print("gradient", gradient[0].item(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
