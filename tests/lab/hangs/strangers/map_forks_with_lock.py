"""The main process tokenizes first in two processes; they are forked while its heartbeat holds the lock of the log."""

# mypy: ignore-errors
# No thread of one job; the kind of datasets issues on `map(num_proc=...)` that hangs after threads have begun.
import sys
import threading
import time

import torch
from accelerate import Accelerator
from datasets import Dataset

LOCK = threading.Lock()


def heartbeat() -> None:
    while True:
        with LOCK:
            time.sleep(0.5 if "--healthy" not in sys.argv else 0.0)  # written to a slow disk
        time.sleep(0.001)


def tokenize(row):
    if "--healthy" not in sys.argv:
        with LOCK:
            pass  # counted
    return {"length": len(row["text"])}


def main() -> None:
    accelerator = Accelerator(cpu=True)
    rank = accelerator.process_index
    print(f"rank {rank} has started", flush=True)
    if accelerator.is_main_process:
        threading.Thread(target=heartbeat, daemon=True).start()
        time.sleep(0.2)
    data = Dataset.from_dict({"text": ["a" * (number % 7) for number in range(40)]})
    with accelerator.main_process_first():
        data = data.map(tokenize, num_proc=2, load_from_cache_file=False)
    model = accelerator.prepare(torch.nn.Linear(4, 1))
    for step in range(1000):
        time.sleep(0.3)
        print(f"rank {rank} step {step}", flush=True)
        accelerator.backward(model(torch.randn(2, 4)).mean())


if __name__ == "__main__":
    main()
