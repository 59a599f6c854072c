"""Two groups of all ranks, whose sums are taken in another order on one rank."""

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
    everybody = list(range(dist.get_world_size()))
    data = dist.new_group(everybody)
    context = dist.new_group(everybody)
    total = torch.zeros(64)
    losses: list[float] = []
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        first, second = (context, data) if rank == 1 and step > 3 and not healthy else (data, context)
        dist.all_reduce(total, group=first)
        losses.append(total.mean().item())
        dist.all_reduce(total, group=second)
        losses.append(total.mean().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
