"""Rank 0 sets a key of the store, the others wait for one of a slightly other name."""

import datetime

import torch
import torch.distributed as dist


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    store = dist.distributed_c10d._get_default_store()
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        if step == 3 and rank == 0:
            store.set("dataset_ready", "yes")
        elif step == 3:
            store.wait(["dataset-ready"], datetime.timedelta(hours=2))
        dist.all_reduce(torch.ones(4))


if __name__ == "__main__":
    main()
