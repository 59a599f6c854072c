"""A thread fills the next batch; on one rank it has failed, and the loop goes on looking for what it made."""

import collections
import os
import threading
import time

import torch
import torch.distributed as dist


class Feeder:
    def __init__(self, sizes: list[int]) -> None:
        self.sizes = sizes
        self.batches: collections.deque[int] = collections.deque()
        threading.Thread(target=self.fill, daemon=True).start()

    def fill(self) -> None:
        for number in range(1000):
            while len(self.batches) > 1:
                time.sleep(0.01)
            self.batches.append(8 // self.sizes[number % len(self.sizes)])

    def next(self) -> int:
        while not self.batches:
            time.sleep(0.01)
        return self.batches.popleft()


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    feeder = Feeder([1, 2, 4, 1, 2, 0] if rank == 2 else [1, 2, 4])
    for step in range(1000):
        time.sleep(0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        gradient = torch.full((1 << 16,), float(feeder.next()), device="cuda")
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
