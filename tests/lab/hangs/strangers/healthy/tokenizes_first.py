"""The first process tokenizes and the others wait at a barrier; it takes minutes (open-instruct pull request 1821)."""

# mypy: ignore-errors
import time
from typing import Any

import torch
from accelerate import Accelerator
from datasets import Dataset


def tokenize(batch: dict[str, Any]) -> dict[str, Any]:
    total = 0
    begin = time.perf_counter()
    while time.perf_counter() - begin < 0.5:
        total += sum(hash(text) for text in batch["text"])
    return {"input_ids": [[total % 100, len(text)] for text in batch["text"]]}


def main() -> None:
    accelerator = Accelerator(cpu=True)
    for step in range(2):
        accelerator.reduce(torch.ones(1))
        print(f"rank {accelerator.process_index} step {step}", flush=True)
    dataset = Dataset.from_dict({"text": [f"document {number}" for number in range(40_000)]})
    with accelerator.main_process_first():
        dataset = dataset.map(tokenize, batched=True, batch_size=100, remove_columns=["text"])
    accelerator.print(len(dataset))


if __name__ == "__main__":
    main()
