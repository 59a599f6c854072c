"""The loop waits for its prefetching thread to say that a batch is there; the thread has raised."""

import threading

import torch
import torch.distributed as dist


class Prefetcher:
    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.asked, self.ready = threading.Event(), threading.Event()
        self.batch = torch.zeros(4)
        threading.Thread(target=self.fill, daemon=True).start()

    def fill(self) -> None:
        number = 0
        while True:
            self.asked.wait()
            self.asked.clear()
            if self.rank == 0 and number == 3:
                raise KeyError("label")
            self.batch = torch.full((4,), float(number))
            number += 1
            self.ready.set()

    def next(self) -> torch.Tensor:
        self.asked.set()
        self.ready.wait()
        self.ready.clear()
        return self.batch


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    batches = Prefetcher(rank)
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        dist.all_reduce(batches.next())


if __name__ == "__main__":
    main()
