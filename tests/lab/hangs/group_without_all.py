"""The ranks of a group make it, and the rank that is none of them goes on to its gradients."""

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
    total = torch.zeros(64)
    group = None
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        if step == 3 and (healthy or rank < 2):
            group = dist.new_group([0, 1])
        dist.all_reduce(total)
        if group is not None and rank < 2:
            dist.all_reduce(total, group=group)
        total.tolist()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
