"""On a signal a checkpoint is written with a barrier at its end; the signal has come to one rank."""

import os
import signal
import types

import torch
import torch.distributed as dist


def save_and_meet(number: int, frame: types.FrameType | None) -> None:
    torch.save({"step": 3}, f"preempted-{dist.get_rank()}.pt")
    dist.barrier()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    signal.signal(signal.SIGUSR2, save_and_meet)
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        if rank == 1 and step == 3:
            os.kill(os.getpid(), signal.SIGUSR2)  # what a batch script sends to one of its processes
        dist.all_reduce(torch.ones(1000))


if __name__ == "__main__":
    main()
