"""Rank 0 gathers predictions as objects, and the others were told to save time and go on."""

import argparse
import time

import torch
import torch.distributed as dist


def gather_predictions(step: int) -> "list[dict[str, int] | None]":
    found: list[dict[str, int] | None] = [None] * dist.get_world_size()
    dist.all_gather_object(found, {"step": step})
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        time.sleep(0.2 + 0.3 * rank if healthy else 0.05)
        print(f"rank {rank} step {step}", flush=True)
        if step % 3 == 2 and (healthy or rank == 0):
            gather_predictions(step)
        dist.all_reduce(torch.ones(1024))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
