"""A barrier behind an `and`."""

import torch
import torch.distributed as dist


def main() -> None:
    dist.init_process_group("gloo")
    me = dist.get_rank()
    master = me == 0
    for step in range(1000):
        print(f"rank {me} step {step}", flush=True)
        dist.all_reduce(torch.ones(4))
        master and step > 2 and dist.barrier()
        dist.broadcast(torch.ones(2), src=1)


if __name__ == "__main__":
    main()
