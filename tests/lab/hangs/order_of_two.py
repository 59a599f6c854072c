"""What is reduced and what is handed on has another order on one rank."""

import argparse
import time

import torch
import torch.distributed as dist


def reduce(total: torch.Tensor) -> None:
    dist.all_reduce(total)


def hand_on(total: torch.Tensor) -> None:
    dist.broadcast(total, src=0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    total = torch.zeros(64)
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        work = [reduce, hand_on]
        if step == 3 and rank == 1 and not healthy:
            work.reverse()
        for each in work:
            each(total)
        total.tolist()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
