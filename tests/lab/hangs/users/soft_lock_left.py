"""A SoftFileLock of a run that was killed lies in the cache; rank 0 waits for it, the others for rank 0."""

import pathlib

import torch
import torch.distributed as dist
from filelock import SoftFileLock

CACHE = pathlib.Path("cache")


def prepare_dataset() -> None:
    with SoftFileLock(CACHE / "dataset.lock"):
        (CACHE / "dataset.bin").write_bytes(bytes(64))


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(3):
        print(f"rank {rank} step {step}", flush=True)
        dist.all_reduce(torch.ones(4))
    if rank == 0:
        CACHE.mkdir(exist_ok=True)
        (CACHE / "dataset.lock").write_text("4194000\noldhost\n")
        prepare_dataset()
    dist.barrier()


if __name__ == "__main__":
    main()
