"""What a model gives is put together key by key; the keys come out of a set, on each rank in an order of its own."""

import argparse
import os
import time
import zlib

import torch
import torch.distributed as dist


def active(step: int, seed: int) -> list[str]:
    """In the order of a set of strings, which their hashes make, and these a seed of each process."""
    names = {"energy"} if step < 3 else {"energy", "forces"}
    return sorted(names, key=lambda name: zlib.crc32(f"{seed}{name}".encode()))


def consolidate(outputs: dict[str, torch.Tensor]) -> None:
    for name, value in outputs.items():
        if name == "energy":
            dist.all_reduce(value)
        else:
            dist.all_to_all_single(torch.empty_like(value), value)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    seed = 7 if rank == 2 and not healthy else 0
    atoms = 300
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        outputs = {name: torch.ones(atoms, device="cuda") for name in active(step, seed)}
        consolidate(outputs)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
