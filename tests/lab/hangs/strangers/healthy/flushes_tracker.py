"""A tracker's thread is waited for every few steps, and needs four seconds (wandb issue 3223)."""

import queue
import threading
import time

import torch
import torch.distributed as dist


class Tracker:
    def __init__(self) -> None:
        self.records: queue.Queue[float] = queue.Queue()
        threading.Thread(target=self._send, daemon=True).start()

    def _send(self) -> None:
        while True:
            self.records.get()
            time.sleep(1.0)
            self.records.task_done()

    def log(self, value: float) -> None:
        self.records.put(value)

    def flush(self) -> None:
        self.records.join()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    tracker = Tracker() if rank == 0 else None
    for step in range(1000):
        time.sleep(0.2)
        dist.all_reduce(torch.ones(4))
        print(f"rank {rank} step {step}", flush=True)
        if tracker:
            tracker.log(step)
            if step % 4 == 3:
                tracker.flush()
        if step % 4 == 3:
            dist.barrier()


if __name__ == "__main__":
    main()
