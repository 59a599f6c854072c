"""Rank 0 copies a checkpoint by a program that asks whether to overwrite it, on a standard input at which nobody is."""

import subprocess

import torch
import torch.distributed as dist

COPY = 'if [ -e "$1" ]; then printf "overwrite %s? " "$1"; read answer; fi; echo saved > "$1"'


def copy_to_archive(name: str) -> None:
    process = subprocess.Popen(["sh", "-c", COPY, "sh", name], stdout=subprocess.PIPE)
    output, _ = process.communicate()
    print(output.decode())


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        dist.all_reduce(torch.ones(4))
        if step % 3 == 0 and rank == 0:
            copy_to_archive("last.ckpt")


if __name__ == "__main__":
    main()
