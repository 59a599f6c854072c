"""Experts are moved where a lock is free at once, which it is not on each process (vllm pull request 32418)."""

# mypy: ignore-errors
import threading
import time

import torch
import torch.distributed as dist


class EplbState:
    def __init__(self, rank: int, ranks: int, copy_seconds: float) -> None:
        self.rank, self.ranks = rank, ranks
        self.buffer_lock = threading.Lock()
        self.ep_buffer_ready = threading.Event()
        self.copy_seconds = copy_seconds
        self.expert = torch.full((16,), float(rank))
        threading.Thread(target=self._transfer, daemon=True, name="eplb").start()

    def _transfer(self) -> None:
        """Copies the next layer into the buffer, again and again."""
        for layer in range(1000):
            with self.buffer_lock:
                self.ep_buffer_ready.set()
                time.sleep(self.copy_seconds if layer == 2 else 0.001)
            time.sleep(1.0)

    def move_to_workspace(self) -> bool:
        if not self.ep_buffer_ready.is_set() or not self.buffer_lock.acquire(blocking=False):
            return False
        try:
            homes = [torch.empty(16) for _ in range(self.ranks)]
            dist.all_gather(homes, self.expert)
            self.expert = homes[(self.rank + 1) % self.ranks]
        finally:
            self.buffer_lock.release()
        return True


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    dist.barrier()
    eplb = EplbState(rank, dist.get_world_size(), copy_seconds=8.0 if rank == 1 else 0.001)
    time.sleep(0.2)
    for step in range(1000):
        hidden = torch.ones(8)
        dist.all_reduce(hidden)
        time.sleep(0.5)
        eplb.move_to_workspace()
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
