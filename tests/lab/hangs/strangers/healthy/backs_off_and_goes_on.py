"""A store that says "later" is asked again after one, two and four seconds, and then answers."""

# mypy: ignore-errors
import time

import torch
import torch.distributed as dist


class Store:
    def __init__(self) -> None:
        self.calls = 0

    def get(self, name: str) -> bytes:
        self.calls += 1
        if self.calls % 4:
            raise TimeoutError(name)
        return b"x" * 8


def fetch(store: Store, name: str) -> bytes:
    for attempt in range(8):
        try:
            return store.get(name)
        except TimeoutError:
            time.sleep(2.0**attempt)
    raise RuntimeError(name)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    store = Store()
    for step in range(1000):
        time.sleep(0.2)
        if rank == 1:
            fetch(store, f"part-{step}")
        dist.all_reduce(torch.ones(8))
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
