"""At the end of an epoch all that is in the queue must be written; a thread that leaves something out does not say that
it is done with it."""

# mypy: ignore-errors
# No thread: queue.Queue.join() where `task_done` is behind a `continue`.
import queue
import sys
import tempfile
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist

KEEPS_EMPTY = "--healthy" in sys.argv


class SampleWriter:
    def __init__(self, folder: str) -> None:
        self.folder, self.samples = Path(folder), queue.Queue()
        threading.Thread(target=self.work, daemon=True).start()

    def work(self) -> None:
        while True:
            name, text = self.samples.get()
            if not text and not KEEPS_EMPTY:
                continue  # nothing to write
            (self.folder / name).write_text(text)
            self.samples.task_done()

    def add(self, name: str, text: str) -> None:
        self.samples.put((name, text))

    def flush(self) -> None:
        self.samples.join()


def main() -> None:
    dist.init_process_group("gloo")
    rank, weight = dist.get_rank(), torch.zeros(3)
    with tempfile.TemporaryDirectory() as folder:
        writer = SampleWriter(folder)
        for step in range(1000):
            time.sleep(0.3)
            print(f"rank {rank} step {step}", flush=True)
            writer.add(f"{step}.txt", "" if rank == 1 and step == 6 else f"sample of {step}")
            gradient = torch.randn(3)
            dist.all_reduce(gradient)
            weight -= 0.1 * gradient
            if step % 4 == 3:
                writer.flush()


if __name__ == "__main__":
    main()
