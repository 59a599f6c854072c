"""The path of a checkpoint is told through the store after a barrier, before which the other one asks for it."""

# mypy: ignore-errors
# No thread; the kind of key that is set a line too late.
import sys
import time

import torch
import torch.distributed as dist

EARLY = "--healthy" in sys.argv


def tell_path(store, rank, step):
    key = f"checkpoint/{step}"
    if rank == 0:
        if EARLY:
            store.set(key, f"/tmp/run/step-{step}")
        dist.barrier()
        if not EARLY:
            store.set(key, f"/tmp/run/step-{step}")
        return f"/tmp/run/step-{step}"
    path = store.get(key).decode()
    dist.barrier()
    return path


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    store = dist.PrefixStore("run", dist.distributed_c10d._get_default_store())
    store.set_timeout(__import__("datetime").timedelta(hours=1))
    for step in range(1000):
        time.sleep(0.2)
        total = torch.rand(3)
        dist.all_reduce(total)
        print(f"rank {rank} step {step}", flush=True)
        if step % 5 == 4:
            tell_path(store, rank, step)


if __name__ == "__main__":
    main()
