"""The main process maps its data set in two processes, which ask a service that does not answer (trl issue 1964)."""

# mypy: ignore-errors
import socket
import time
import urllib.request
from typing import Any

import torch
import torch.distributed as dist
from accelerate import Accelerator
from datasets import Dataset


class Translator:
    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}/translate"

    def __call__(self, example: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(self.address, data=example["text"].encode())
        with urllib.request.urlopen(request) as answer:
            return {"translated": answer.read().decode()}


def main() -> None:
    accelerator = Accelerator(cpu=True)
    rank = accelerator.process_index
    silent = socket.create_server(("127.0.0.1", 0))
    total = torch.zeros(1)
    for step in range(3):
        time.sleep(0.2)
        dist.all_reduce(total)
        print(f"rank {rank} step {step}", flush=True)
    dataset = Dataset.from_dict({"text": [f"line {number}" for number in range(20)]})
    with accelerator.main_process_first():
        dataset = dataset.map(Translator(silent.getsockname()[1]), num_proc=2)
    print(len(dataset), flush=True)


if __name__ == "__main__":
    main()
