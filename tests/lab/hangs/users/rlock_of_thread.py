"""A watcher thread keeps the lock while it waits for its next event."""

import threading

import torch
import torch.distributed as dist


class State:
    def __init__(self) -> None:
        self.guard = threading.RLock()
        self.changed = threading.Event()
        self.values: list[float] = []

    def watch(self) -> None:
        self.changed.wait()
        with self.guard:
            self.changed.clear()
            self.changed.wait()

    def add(self, value: float) -> None:
        with self.guard:
            self.values.append(value)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    state = State()
    threading.Thread(target=state.watch, daemon=True).start()
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        state.add(0.5)
        dist.all_reduce(torch.ones(4))
        if rank == 1 and step == 2:
            state.changed.set()
            threading.Event().wait(0.2)


if __name__ == "__main__":
    main()
