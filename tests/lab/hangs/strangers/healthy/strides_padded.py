"""Each process takes every third question and answers one twice where there are too few."""

# mypy: ignore-errors
import time

import torch
import torch.distributed as dist


def evaluate(questions: int, epoch: int) -> None:
    rank, world = dist.get_rank(), dist.get_world_size()
    for number in range(0, questions, world):
        time.sleep(0.3 + 0.3 * rank)
        right = torch.tensor([float((number + rank) % questions % 2)])
        dist.all_reduce(right)
        print(f"rank {rank} step {epoch * questions + number // world}", flush=True)
    shares = [None] * world
    dist.all_gather_object(shares, rank)


def main() -> None:
    dist.init_process_group("gloo")
    for epoch in range(1000):
        evaluate(10, epoch)


if __name__ == "__main__":
    main()
