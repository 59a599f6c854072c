"""The tokens of all are added up when the main process logs (transformers pull request 7365)."""

# mypy: ignore-errors
import os
import time
from typing import Any

import torch
from torch import nn
from transformers import Trainer, TrainingArguments


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(50, 8), nn.Linear(8, 50)

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = self.head(self.embedding(input_ids))
        return {"loss": nn.functional.cross_entropy(logits.view(-1, 50), labels.view(-1))}


class CountingTrainer(Trainer):
    seen = 0

    def training_step(self, model: nn.Module, inputs: dict[str, Any], *rest: Any) -> torch.Tensor:
        self.seen += inputs["input_ids"].numel()
        time.sleep(0.1)
        print(f"rank {os.environ['RANK']} step {self.state.global_step}", flush=True)
        return super().training_step(model, inputs, *rest)

    def log(self, logs: dict[str, float], *rest: Any) -> None:
        if self.state.is_world_process_zero:
            total = self.accelerator.gather(torch.tensor([self.seen])).sum()
            logs["tokens"] = float(total)
        super().log(logs, *rest)


if __name__ == "__main__":
    text = [{"input_ids": torch.randint(0, 50, (16,)), "labels": torch.randint(0, 50, (16,))} for _ in range(4000)]
    options = TrainingArguments(
        output_dir="run", use_cpu=True, report_to=[], logging_steps=5, save_strategy="no", disable_tqdm=True
    )
    CountingTrainer(model=Model(), args=options, train_dataset=text).train()
