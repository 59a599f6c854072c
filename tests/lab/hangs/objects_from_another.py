"""One rank takes the epoch's plan from itself: it hands another source to broadcast_object_list."""

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
    torch.manual_seed(rank)
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        plan = [{"order": [3, 1, 2], "step": step}]
        leader = rank if rank == 1 and step == 3 and not healthy else 0
        dist.broadcast_object_list(plan, src=leader)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
