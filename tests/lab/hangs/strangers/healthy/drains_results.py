"""A queue is joined while its thread scores what is in it, a second for each (ART pull request 429)."""

# mypy: ignore-errors
import queue
import threading
import time

import torch
import torch.distributed as dist


class Results:
    def __init__(self, seconds: float) -> None:
        self.queue: queue.Queue[int] = queue.Queue()
        self.seconds = seconds
        threading.Thread(target=self._score, daemon=True).start()

    def _score(self) -> None:
        while True:
            self.queue.get()
            time.sleep(self.seconds)
            self.queue.task_done()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    results = Results(1.0 if rank == 1 else 0.01)
    for step in range(10_000):
        for number in range(6 if step > 1 else 1):
            results.queue.put(number)
        results.queue.join()
        dist.all_reduce(torch.ones(2))
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
