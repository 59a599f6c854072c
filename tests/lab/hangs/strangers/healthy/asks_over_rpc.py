"""Trainers ask a parameter server over RPC, which takes two seconds for each answer (the RPC tutorial)."""

import os
import time

import torch
import torch.distributed.rpc as rpc

WEIGHTS = torch.zeros(10)


def update(gradient: torch.Tensor) -> torch.Tensor:
    time.sleep(2.0)
    return WEIGHTS.sub_(gradient)


def main() -> None:
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world)
    for step in range(10_000):
        if rank > 0:
            rpc.rpc_sync("worker0", update, args=(torch.ones(10),), timeout=0)
        else:
            time.sleep(1.0)
        print(f"rank {rank} step {step}", flush=True)
    rpc.shutdown()


if __name__ == "__main__":
    main()
