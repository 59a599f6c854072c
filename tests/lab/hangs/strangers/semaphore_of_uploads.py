"""Two uploads may run at a time; those that fail do not give back what they have taken."""

# mypy: ignore-errors
# No thread: after a usual bounded semaphore around uploads.
import threading
import time

import torch
import torch.distributed as dist


class Uploader:
    def __init__(self, most: int = 2) -> None:
        self.slots = threading.BoundedSemaphore(most)

    def _send(self, name: str) -> None:
        time.sleep(0.1)
        if name.endswith(("3", "4")):
            return  # refused, and said nowhere
        self.slots.release()

    def submit(self, name: str) -> None:
        self.slots.acquire()
        threading.Thread(target=self._send, args=(name,), daemon=True).start()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    uploader = Uploader() if rank == 0 else None
    for step in range(1000):
        time.sleep(0.3)
        dist.all_reduce(torch.ones(8))
        print(f"rank {rank} step {step}", flush=True)
        if uploader is not None:
            uploader.submit(f"shard-{step}")


if __name__ == "__main__":
    main()
