"""A process forks to send a message, while its thread writes one, and waits for the child (loguru 231, the kind)."""

# mypy: ignore-errors
import os
import threading
import time

import torch
import torch.distributed as dist


class Sink:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.lines = []

    def write(self, text: str, seconds: float = 0.0) -> None:
        with self.lock:
            time.sleep(seconds)
            self.lines.append(text)


SINK = Sink()


def writes_slowly() -> None:
    while True:
        SINK.write("gpu 61 C", seconds=0.9)
        time.sleep(0.02)


def notify(text: str) -> None:
    pid = os.fork()
    if pid == 0:
        SINK.write(text)
        os._exit(0)
    os.waitpid(pid, 0)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if rank == 1:
        threading.Thread(target=writes_slowly, daemon=True).start()
    for step in range(1000):
        time.sleep(0.35)
        dist.all_reduce(torch.ones(4))
        print(f"rank {rank} step {step}", flush=True)
        if rank == 1 and step >= 5:
            notify(f"step {step}")


if __name__ == "__main__":
    main()
