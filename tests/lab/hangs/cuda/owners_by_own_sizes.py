"""Each rank owns some parameters, by their sizes, and sends them to all; one counts a parameter that is frozen."""

import argparse
import os
import time

import torch
import torch.distributed as dist


def owners(sizes: list[int], world: int) -> list[int]:
    load, chosen = [0] * world, []
    for size in sizes:
        owner = load.index(min(load))
        load[owner] += size
        chosen.append(owner)
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    sizes = [1 << 18, 1 << 20, 1 << 18, 1 << 19]
    parameters = [torch.ones(size, device="cuda") for size in sizes]
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        counted = [size if step < 4 or at or (rank == 1 and not healthy) else 0 for at, size in enumerate(sizes)]
        for parameter, owner in zip(parameters, owners(counted, dist.get_world_size()), strict=True):
            dist.broadcast(parameter, src=owner)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
