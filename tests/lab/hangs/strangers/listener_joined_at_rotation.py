"""At the end of an epoch the log is rotated: its listener is stopped, whose thread stands in a write to a pipe."""

# mypy: ignore-errors
# No thread: after QueueListener in front of a pipe to a viewer.
import logging
import logging.handlers
import os
import queue
import time

import torch
import torch.distributed as dist


def pipe_to_viewer():
    """A viewer that has been closed to the last window reads no more."""
    reading, writing = os.pipe()
    os.set_inheritable(reading, True)
    return os.fdopen(writing, "w", buffering=1)


class Log:
    def __init__(self) -> None:
        self.queue = queue.SimpleQueue()
        self.log = logging.getLogger("train")
        self.log.setLevel(logging.INFO)
        self.log.addHandler(logging.handlers.QueueHandler(self.queue))
        self.open()

    def open(self) -> None:
        self.listener = logging.handlers.QueueListener(self.queue, logging.StreamHandler(pipe_to_viewer()))
        self.listener.start()

    def rotate(self) -> None:
        self.listener.stop()
        self.open()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    log = Log() if rank == 0 else None
    for step in range(1000):
        time.sleep(0.3)
        dist.all_reduce(torch.ones(4))
        print(f"rank {rank} step {step}", flush=True)
        if log:
            log.log.info("weights %s", torch.rand(4000).tolist())
            if step == 5:
                log.rotate()


if __name__ == "__main__":
    main()
