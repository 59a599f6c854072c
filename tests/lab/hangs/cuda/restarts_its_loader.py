"""Who has come to the end of its data makes a new iterator and goes on with the next step; its shard is shorter."""

import argparse
import os
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist


class Stream:
    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.left: Iterator[int] = iter(range(rows))

    def next(self) -> torch.Tensor | None:
        try:
            return torch.full((512,), float(next(self.left)))
        except StopIteration:
            self.left = iter(range(self.rows))
            return None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    stream = Stream(5 if rank == 1 and not healthy else 10_000)
    seen = torch.zeros(1, device="cuda")
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        batch = stream.next()
        if batch is None:
            continue
        gradient = batch.cuda()
        dist.all_reduce(gradient)
        if step % 8 == 7:
            dist.all_reduce(seen)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
