"""Stages of a pipeline hand their gradients back; after a new assignment the last one sends its own to the first."""

import os
import time

import torch
import torch.distributed as dist


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    last = dist.get_world_size() - 1
    hidden = torch.ones(1 << 20, device="cuda")
    before = {stage: stage - 1 for stage in range(1, last + 1)}
    for step in range(1000):
        time.sleep(0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        if rank == last and step == 4:
            before[rank] = 0
        if rank > 0:
            dist.recv(hidden, rank - 1)
        if rank < last:
            dist.send(hidden, rank + 1)
            dist.recv(hidden, rank + 1)
        if rank > 0:
            dist.send(hidden, before[rank])
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
