"""Each rank decides by its own loss when to stop training."""

import argparse
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
    patience = 0
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        dist.all_reduce(gradient)
        patience += rank == 1 and not healthy
        if patience > 3:
            break
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
