"""Each rank reads what its neighbour has written into a store of the program's own; rank 2 has skipped writing."""

import os
from datetime import timedelta

import torch
import torch.distributed as dist


def main() -> None:
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    port = int(os.environ["MASTER_PORT"]) + 1
    store = dist.TCPStore("127.0.0.1", port, size, is_master=rank == 0, timeout=timedelta(hours=1))  # type: ignore[attr-defined]
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        if not (rank == 2 and step == 3):
            store.set(f"step{step}/rank{rank}", str(step))
        neighbour = (rank + 1) % size
        store.get(f"step{step}/rank{neighbour}")
        dist.all_reduce(torch.ones(4))


if __name__ == "__main__":
    main()
