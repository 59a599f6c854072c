"""An iterator that is filled by a thread, which has ended without a word (pytorch issue 87995, fairseq's iterators)."""

import queue
import threading
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist


class BackgroundConsumer(threading.Thread):
    def __init__(self, into: "queue.Queue[torch.Tensor]", source: Iterator[torch.Tensor]) -> None:
        super().__init__(daemon=True)
        self._queue, self._source = into, source

    def run(self) -> None:
        try:
            for item in self._source:
                self._queue.put(item)
        except ValueError:
            pass  # a broken sample


class BufferedIterator:
    def __init__(self, size: int, iterable: Iterator[torch.Tensor]) -> None:
        self._queue: queue.Queue[torch.Tensor] = queue.Queue(size)
        self._consumer = BackgroundConsumer(self._queue, iterable)
        self._consumer.start()

    def __iter__(self) -> "BufferedIterator":
        return self

    def __next__(self) -> torch.Tensor:
        return self._queue.get(True)


def samples(rank: int) -> Iterator[torch.Tensor]:
    for number in range(10_000):
        if rank == 0 and number == 7:
            raise ValueError("cannot identify image file")
        yield torch.full((4,), float(number))


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step, batch in enumerate(BufferedIterator(4, samples(rank))):
        time.sleep(0.1)
        dist.all_reduce(batch)
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
