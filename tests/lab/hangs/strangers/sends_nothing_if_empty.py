"""The first process receives rows from each of the others; one that has found none sends nothing."""

# mypy: ignore-errors
# No thread: after collecting by send and recv.
import time

import torch
import torch.distributed as dist


def find(rank: int, step: int) -> torch.Tensor:
    count = 0 if (rank, step) == (2, 5) else rank + 1
    return torch.arange(float(count))


def collect(rows: torch.Tensor, rank: int, world: int) -> None:
    if rank == 0:
        total = len(rows)
        for other in range(1, world):
            size = torch.zeros(1)
            dist.irecv(size, src=other).wait()
            received = torch.zeros(int(size))
            dist.recv(received, src=other)
            total += len(received)
        print("rows", total, flush=True)
        return
    if not len(rows):
        return
    dist.send(torch.tensor([float(len(rows))]), dst=0)
    dist.send(rows, dst=0)


def main() -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    for step in range(1000):
        time.sleep(0.3)
        print(f"rank {rank} step {step}", flush=True)
        collect(find(rank, step), rank, world)
        dist.barrier()


if __name__ == "__main__":
    main()
