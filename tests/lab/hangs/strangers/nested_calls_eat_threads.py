"""Calls that call back use up the threads that answer them, on both sides at once (pytorch issue 26362)."""

# mypy: ignore-errors
import os
import time

import torch
import torch.distributed.rpc as rpc
from torch.distributed.rpc import TensorPipeRpcBackendOptions

THREADS = 4


def lookup(rows: int) -> torch.Tensor:
    time.sleep(0.1)
    return torch.ones(rows)


def embed(rows: int, back: str, nested: bool) -> torch.Tensor:
    """Of some rows the owner is the one who asks."""
    time.sleep(0.3)
    return rpc.rpc_sync(back, lookup, args=(rows,), timeout=6000) if nested else lookup(rows)


def main() -> None:
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    options = TensorPipeRpcBackendOptions(num_worker_threads=THREADS, rpc_timeout=6000)
    rpc.init_rpc(f"shard{rank}", rank=rank, world_size=world, rpc_backend_options=options)
    other = f"shard{(rank + 1) % world}"
    for step in range(1000):
        number = 2 if step < 4 else 2 * THREADS
        calls = [rpc.rpc_async(other, embed, args=(8, f"shard{rank}", step > 3), timeout=6000) for _ in range(number)]
        rows = torch.futures.wait_all(calls)
        print(f"rank {rank} step {step} {len(rows)}", flush=True)
    rpc.shutdown()


if __name__ == "__main__":
    main()
