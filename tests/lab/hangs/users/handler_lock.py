"""A signal handler writes into a buffer under its lock, and has interrupted who holds it."""

import os
import signal
import threading
import types

import torch
import torch.distributed as dist

LOCK = threading.Lock()
EVENTS: list[str] = []


def record(text: str) -> None:
    with LOCK:
        EVENTS.append(text)


def on_signal(number: int, frame: types.FrameType | None) -> None:
    record(f"signal {number}")


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    signal.signal(signal.SIGUSR1, on_signal)
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        with LOCK:
            EVENTS.append(f"step {step}")
            if rank == 0 and step == 3:
                os.kill(os.getpid(), signal.SIGUSR1)
        dist.all_reduce(torch.ones(4))


if __name__ == "__main__":
    main()
