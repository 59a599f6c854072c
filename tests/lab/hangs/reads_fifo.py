"""One rank opens a named pipe that nobody writes to: a download that was to fill it never began."""

import argparse
import os
import pathlib
import time

import torch
import torch.distributed as dist


def load_shard(path: pathlib.Path, healthy: bool) -> torch.Tensor:
    if healthy:
        path.with_suffix(".bin").write_bytes(bytes(64))
        path = path.with_suffix(".bin")
    with path.open("rb") as file:
        return torch.frombuffer(bytearray(file.read(64)), dtype=torch.uint8).float()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path())
    arguments = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    shard = arguments.folder / f"shard-{rank}"
    for step in range(1000):
        time.sleep(0.2 + 0.3 * rank if arguments.healthy else 0.05)
        sample = torch.zeros(64)
        if arguments.healthy:
            sample = load_shard(shard, healthy=True)
        elif step == 3 and rank == 1:
            os.mkfifo(shard)
            sample = load_shard(shard, healthy=False)
        dist.all_reduce(sample)
        print(f"rank {rank} step {step}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
