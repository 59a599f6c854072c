"""A save that fails for a while is tried again; which errors do so each process says for itself (xtuner pull 1852)."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist

QUOTA = "--healthy" not in sys.argv


class Busy(Exception):
    pass


class Bucket:
    """Object storage, by a client that has its own view of the quota."""

    def __init__(self, rank: int) -> None:
        self.rank, self.puts = rank, 0

    def put(self, key: str, data) -> None:
        self.puts += 1
        if QUOTA and self.rank == 1 and self.puts == 3:
            raise Busy("503 slow down")


def save_sharded(bucket: Bucket, step: int, shard) -> None:
    for _ in range(5):
        dist.barrier()  # nobody writes into a folder that is being cleaned
        try:
            bucket.put(f"step-{step}/{bucket.rank}", shard)
        except Busy:
            time.sleep(0.2)
            continue
        return
    raise RuntimeError("storage is down")


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    bucket, shard = Bucket(rank), torch.zeros(16)
    for step in range(1000):
        time.sleep(0.35)
        print(f"rank {rank} step {step}", flush=True)
        total = shard.norm().square()
        dist.all_reduce(total)
        shard += torch.randn(16) / (1 + total.sqrt())
        if step % 2:
            save_sharded(bucket, step, shard)


if __name__ == "__main__":
    main()
