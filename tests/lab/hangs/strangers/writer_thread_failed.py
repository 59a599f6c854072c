"""The thread that writes records has failed on one of them; the queue before it is full now."""

# mypy: ignore-errors
# No thread: after writers behind bounded queues.
import json
import queue
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist


class RecordWriter:
    def __init__(self, path: Path) -> None:
        self.records = queue.Queue(maxsize=3)
        self.path = path
        threading.Thread(target=self._run, name="record-writer", daemon=True).start()

    def _run(self) -> None:
        with self.path.open("w") as file:
            while True:
                record = self.records.get()
                file.write(json.dumps(record) + "\n")

    def add(self, record: dict) -> None:
        self.records.put(record)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    writer = RecordWriter(Path(f"records{rank}.jsonl"))
    for step in range(1000):
        time.sleep(0.3)
        loss = torch.rand(1)
        dist.all_reduce(loss)
        print(f"rank {rank} step {step}", flush=True)
        value = loss if (rank, step) == (2, 3) else float(loss)  # one that json does not know
        writer.add({"step": step, "loss": value})


if __name__ == "__main__":
    main()
