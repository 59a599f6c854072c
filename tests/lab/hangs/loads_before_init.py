"""Every rank loads its data before it joins the others; a rank that dies there is waited for in init_process_group.

`--memory` fills memory until the kernel ends the process, `--leaves` ends the program with status 0, `--spawn` starts
the ranks by torch.multiprocessing, whose parent looks after something else. Started by hand or by a launcher that does
not end the others.
"""

import argparse
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import spawn


def load(rank: int, arguments: argparse.Namespace) -> list[torch.Tensor]:
    print(f"rank {rank} loads", flush=True)
    data = [torch.ones(16)]
    if rank == arguments.victim and not arguments.healthy:
        while arguments.memory:
            data.append(torch.ones(1 << 22))
        if arguments.leaves:
            sys.exit()
        os.kill(os.getpid(), signal.SIGKILL)
    return data


def train(rank: int, arguments: argparse.Namespace, world_size: int) -> None:
    data = load(rank, arguments)
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    for step in range(1000):
        time.sleep(0.3 + 0.3 * rank)
        dist.all_reduce(data[0])
        print(f"rank {rank} step {step}", flush=True)
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--leaves", action="store_true")
    parser.add_argument("--spawn", type=int, default=0)
    parser.add_argument("--victim", type=int, default=1)
    arguments = parser.parse_args()
    if not arguments.spawn:
        train(int(os.environ["RANK"]), arguments, int(os.environ["WORLD_SIZE"]))
        return
    context = spawn(train, (arguments, arguments.spawn), arguments.spawn, join=False)  # type: ignore[no-untyped-call]
    while context is not None:
        time.sleep(1)  # serves its metrics, and asks after its ranks too late


if __name__ == "__main__":
    main()
