"""A checkpoint is uploaded by a pool while the saver holds its lock, which the upload wants for its list of files."""

# mypy: ignore-errors
# No thread; the kind of lock that is held over result().
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.distributed as dist

RELEASES = "--healthy" in sys.argv


class Saver:
    def __init__(self):
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(max_workers=1)
        self._files = []

    def _upload(self, name):
        time.sleep(0.1)
        with self._lock:
            self._files.append(name)

    def save(self, step):
        with self._lock:
            pending = self._pool.submit(self._upload, f"step-{step}.pt")
            if not RELEASES:
                pending.result()
        pending.result()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    saver = Saver() if rank == 0 else None
    for step in range(1000):
        time.sleep(0.2)
        grad = torch.rand(4)
        dist.all_reduce(grad)
        print(f"rank {rank} step {step}", flush=True)
        if saver and step % 5 == 4:
            saver.save(step)


if __name__ == "__main__":
    main()
