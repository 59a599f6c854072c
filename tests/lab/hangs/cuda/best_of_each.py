"""Weights come from the rank with the best score; each looks it up in scores of its own, and one has older ones."""

import argparse
import os
import time

import torch
import torch.distributed as dist


def best(scores: dict[int, float]) -> int:
    return max(scores, key=lambda number: scores[number])


def take_over(weights: torch.Tensor, source: int) -> None:
    dist.broadcast(weights, src=source)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    scores = {0: 0.5, 1: 0.7, 2: 0.6}
    gradient = torch.ones(1 << 18, device="cuda")
    weights = torch.ones(1 << 18, device="cuda")
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        if step == 4 and (healthy or rank != 2):
            scores[0] = 0.9
        dist.all_reduce(gradient)
        take_over(weights, best(scores))
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
