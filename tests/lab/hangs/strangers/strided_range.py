"""Each process takes every third of ten questions; after each answer they are counted together."""

# mypy: ignore-errors
# No thread: after usual evaluations by strides.
import time

import torch
import torch.distributed as dist


def answer(number: int) -> bool:
    time.sleep(0.2)
    return number % 3 == 0


def evaluate(questions: list[int]) -> float:
    rank, world = dist.get_rank(), dist.get_world_size()
    counts = torch.zeros(2)
    for number in range(rank, len(questions), world):
        right = torch.tensor([float(answer(questions[number])), 1.0])
        dist.all_reduce(right)
        counts += right
        print(f"rank {rank} step {number // world}", flush=True)
    shares = [None] * world
    dist.all_gather_object(shares, float(counts[0] / counts[1]))
    return shares[0]


def main() -> None:
    dist.init_process_group("gloo")
    print("accuracy", evaluate(list(range(10))))


if __name__ == "__main__":
    main()
