"""A reader is closed while its thread waits to put one more into a full buffer (meta-pytorch/data issue 1176)."""

import queue
import threading
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist


class PrefetchReader:
    def __init__(self, source: Iterator[torch.Tensor], size: int) -> None:
        self.buffer: queue.Queue[torch.Tensor] = queue.Queue(size)
        self.stop = False
        self.thread = threading.Thread(target=self.fill, args=(source,), name="prefetch")
        self.thread.start()

    def fill(self, source: Iterator[torch.Tensor]) -> None:
        for item in source:
            if self.stop:
                return
            self.buffer.put(item)

    def take(self) -> torch.Tensor:
        return self.buffer.get()

    def shutdown(self) -> None:
        self.stop = True
        self.thread.join()


def frames(rank: int) -> Iterator[torch.Tensor]:
    for number in range(12 if rank == 0 else 200):
        yield torch.full((3,), float(number))


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for epoch in range(20):
        reader = PrefetchReader(frames(rank), size=4)
        for step in range(12):
            time.sleep(0.1)
            dist.all_reduce(reader.take())
            print(f"rank {rank} step {step} of epoch {epoch}", flush=True)
        reader.shutdown()


if __name__ == "__main__":
    main()
