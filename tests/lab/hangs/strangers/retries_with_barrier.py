"""A write that fails is tried again after all have waited for each other, which only the one that failed knows."""

# mypy: ignore-errors
# No thread: after usual loops of attempts.
import time

import torch
import torch.distributed as dist


class Bucket:
    def __init__(self, rank: int) -> None:
        self.rank, self.calls = rank, 0

    def put(self, name: str) -> None:
        self.calls += 1
        if self.rank == 0 and self.calls == 3:
            raise TimeoutError(f"{name}: slow down")


def put_with_retries(bucket: Bucket, name: str, attempts: int = 4) -> None:
    for attempt in range(attempts):
        try:
            bucket.put(name)
            return
        except TimeoutError as error:
            print(f"attempt {attempt} failed: {error}", flush=True)
            dist.barrier()
    raise RuntimeError(f"{name} was not written")


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    bucket, weight = Bucket(rank), torch.ones(8)
    for step in range(1000):
        time.sleep(0.2)
        dist.all_reduce(weight)
        weight /= dist.get_world_size()
        print(f"rank {rank} step {step}", flush=True)
        if step % 2 == 0:
            put_with_retries(bucket, f"part-{step}-{rank}")


if __name__ == "__main__":
    main()
