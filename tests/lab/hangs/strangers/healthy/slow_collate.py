"""The collator of the Trainer decodes audio, some seconds for each batch and not the same everywhere."""

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
        self.layer = nn.Linear(4, 1)

    def forward(self, features: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": self.layer(features).pow(2).mean()}


STEP = [0]


def collate(examples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    if STEP[0] > 2:
        time.sleep(3.5 if os.environ["RANK"] == "1" else 1.0)
    print(f"rank {os.environ['RANK']} step {STEP[0]}", flush=True)
    STEP[0] += 1
    return {"features": torch.stack([example["features"] for example in examples])}


if __name__ == "__main__":
    data = [{"features": torch.randn(4)} for _ in range(4000)]
    options = TrainingArguments(
        output_dir="out", use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True, remove_unused_columns=False
    )
    Trainer(model=Model(), args=options, train_dataset=data, data_collator=collate).train()
