"""The first process sums in a group of its own, now and then, and looks at what it has for some seconds."""

# mypy: ignore-errors
import time

import torch
import torch.distributed as dist


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    alone = dist.new_group([0])
    for step in range(1000):
        time.sleep(0.3)
        dist.all_reduce(torch.ones(8))
        print(f"rank {rank} step {step}", flush=True)
        if rank == 0 and step % 4 == 1:
            table = torch.ones(8)
            dist.all_reduce(table, group=alone)
            time.sleep(3.5)
        dist.barrier()


if __name__ == "__main__":
    main()
