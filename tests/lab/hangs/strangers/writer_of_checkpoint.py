"""The writer of a checkpoint was forked while another thread held a lock (Megatron-LM issue 2422)."""

import multiprocessing
import threading
import time

import torch
import torch.distributed as dist

CACHE = threading.Lock()
fork = multiprocessing.get_context("fork")


def prefetch() -> None:
    """Holds the cache for most of the time."""
    while True:
        with CACHE:
            time.sleep(0.2)


def write(state: dict[str, torch.Tensor], path: str) -> None:
    with CACHE:
        torch.save(state, path)


class AsyncCaller:
    def __init__(self) -> None:
        self.process = None

    def schedule(self, state: dict[str, torch.Tensor], path: str) -> None:
        self.process = fork.Process(target=write, args=(state, path))
        self.process.start()

    def close(self) -> None:
        if self.process is not None:
            self.process.join()
            self.process = None


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    caller = AsyncCaller()
    if rank == 0:
        threading.Thread(target=prefetch, daemon=True).start()
    weights = torch.ones(64)
    for step in range(1000):
        time.sleep(0.2)
        dist.all_reduce(weights)
        print(f"rank {rank} step {step}", flush=True)
        if step % 4 == 3:
            if rank == 0:
                caller.schedule({"weights": weights.clone()}, "checkpoint.pt")
        if step % 4 == 2:
            caller.close()
            dist.barrier()


if __name__ == "__main__":
    main()
