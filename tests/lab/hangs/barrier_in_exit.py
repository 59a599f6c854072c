"""One rank fails inside a context manager whose exit waits for all ranks; they wait in the next all_reduce."""

import argparse
import time

import torch
import torch.distributed as dist


class Together:
    """All ranks leave it at once."""

    def __enter__(self) -> None:
        dist.barrier()

    def __exit__(self, *_: object) -> None:
        dist.barrier()


def train(rank: int, healthy: bool) -> None:
    total = torch.zeros(64)
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        if step == 3 and rank == 2 and not healthy:
            raise KeyError("label 4711")
        dist.all_reduce(total)
        total.tolist()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    with Together():
        train(rank, healthy)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
