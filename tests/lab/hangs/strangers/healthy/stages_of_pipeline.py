"""Three stages of which the middle one is slow: the others stand in a receive for most of the time."""

import time

import torch
import torch.distributed as dist

SECONDS = (0.2, 2.5, 0.3)


def main() -> None:
    dist.init_process_group("gloo")
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    activation = torch.zeros(64)
    for step in range(1000):
        for _ in range(2):
            if rank > 0:
                dist.recv(activation, src=rank - 1)
            time.sleep(SECONDS[rank] if step else 0.1)
            if rank < last:
                dist.send(activation, dst=rank + 1)
        for _ in range(2):
            if rank < last:
                dist.recv(activation, src=rank + 1)
            if rank > 0:
                dist.send(activation, dst=rank - 1)
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
