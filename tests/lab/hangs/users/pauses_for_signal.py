"""A rank waits for the scheduler's signal, which comes to the first rank only. The model is in DDP."""

import signal
import types

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def requeue(number: int, frame: types.FrameType | None) -> None:
    print("requeue")


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    signal.signal(signal.SIGUSR1, requeue)
    model = DDP(torch.nn.Linear(4, 4))
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        model(torch.ones(2, 4)).mean().backward()
        if rank == 1 and step == 3:
            signal.pause()


if __name__ == "__main__":
    main()
