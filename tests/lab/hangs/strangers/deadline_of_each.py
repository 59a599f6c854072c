"""Training goes on until the time is over that the queue has given, by the clock of each process (jQMC request 59)."""

# mypy: ignore-errors
import time

import torch
import torch.distributed as dist


class Budget:
    """What is left of the wall time; the node of the first process was up sooner."""

    def __init__(self, rank: int) -> None:
        self.deadline = time.monotonic() + (3.0 if rank == 0 else 40.0)

    def left(self) -> float:
        return self.deadline - time.monotonic()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    budget, step, weight = Budget(rank), 0, torch.ones(8)
    while budget.left() > 0:
        time.sleep(0.2)
        dist.all_reduce(weight)
        weight /= dist.get_world_size()
        print(f"rank {rank} step {step}", flush=True)
        step += 1
    print(f"rank {rank} leaves after {step}", flush=True)
    parts = [None] * dist.get_world_size()
    dist.all_gather_object(parts, {"steps": step})
    print("saved", parts, flush=True)


if __name__ == "__main__":
    main()
