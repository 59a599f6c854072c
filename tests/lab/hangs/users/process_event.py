"""A helper process is to set an event when its index is built, and was killed."""

import multiprocessing
import os
import signal

import torch
import torch.distributed as dist


def build(ready: object, killed: bool) -> None:
    if killed:
        os.kill(os.getpid(), signal.SIGKILL)
    ready.set()  # type: ignore[attr-defined]


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    context = multiprocessing.get_context("fork")
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        ready = context.Event()
        context.Process(target=build, args=(ready, rank == 0 and step == 3), daemon=True).start()
        ready.wait()
        dist.all_reduce(torch.ones(4))


if __name__ == "__main__":
    main()
