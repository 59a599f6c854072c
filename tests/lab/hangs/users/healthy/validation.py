"""Every few steps rank 0 validates for twenty seconds of computing, and the others wait in a barrier."""

import time

import torch
import torch.distributed as dist


def validate(seconds: float) -> float:
    end, total = time.monotonic() + seconds, 0.0
    while time.monotonic() < end:
        total += torch.ones(200, 200).matmul(torch.ones(200, 200)).sum().item()
        time.sleep(0.05)
    return total


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        dist.all_reduce(torch.ones(4))
        if step >= 1:
            if rank == 0:
                validate(20.0)
            dist.barrier()


if __name__ == "__main__":
    main()
