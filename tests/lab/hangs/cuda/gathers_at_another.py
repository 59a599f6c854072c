"""Predictions are gathered where they are written; from a step on one rank believes that another one writes them."""

import argparse
import os
import time

import torch
import torch.distributed as dist


def collect(predictions: torch.Tensor, at: int) -> list[torch.Tensor] | None:
    rows = [torch.empty_like(predictions) for _ in range(dist.get_world_size())] if dist.get_rank() == at else None
    dist.gather(predictions, rows, dst=at)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    writer = 0
    gradient = torch.ones(1 << 18, device="cuda")
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        dist.all_reduce(gradient)
        if step == 3 and rank == 2 and not healthy:
            writer = 1  # its disk is not full, as its own table says
        collect(gradient[: 1 << 16], writer)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
