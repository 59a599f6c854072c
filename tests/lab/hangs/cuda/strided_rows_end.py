"""Each rank takes every third row of a file; the file's last rows are fewer, and the metrics wait for all."""

import os
import time

import torch
import torch.distributed as dist


class Rows:
    def __init__(self, count: int, rank: int, world: int) -> None:
        self.numbers = range(rank, count, world)

    def batches(self) -> list[int]:
        return [number for number in self.numbers if number % 2 >= 0]


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    rows = Rows(17, rank, dist.get_world_size())
    for epoch in range(100):
        for row in rows.batches():
            time.sleep(0.05)
            print(f"rank {rank} step {row // 3} begins", flush=True)
            gradient = torch.full((1 << 18,), float(row), device="cuda")
            dist.all_reduce(gradient)
            torch.cuda.synchronize()
        accuracy = torch.ones(2, device="cuda")
        dist.all_reduce(accuracy)
        print(f"rank {rank} epoch {epoch} accuracy {accuracy[0].item()}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
