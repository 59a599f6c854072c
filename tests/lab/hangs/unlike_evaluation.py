"""Each rank evaluates its own files, and one has fewer batches of them than the others."""

import argparse
import time

import torch
import torch.distributed as dist


def evaluate(batches: int) -> float:
    right = torch.zeros(1)
    everybody = [torch.zeros(16) for _ in range(dist.get_world_size())]
    for _ in range(batches):
        answers = torch.zeros(16)
        dist.all_gather(everybody, answers)
        right += torch.stack(everybody).sum()
    dist.all_reduce(right)
    return right.item()


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
        dist.all_reduce(gradient)
        if step % 3 == 2:
            evaluate(4 if healthy or rank != 1 else 3)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
