"""Transformers: a trainer adds the mean of a second loss to its logs, in the process that writes them."""

# mypy: ignore-errors
# The kind of threads on an own Trainer.log that gathers (forum questions on logging a custom loss with DDP).
import sys
import time

import torch
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments

EVERY_PROCESS = "--healthy" in sys.argv


class Pairs(Dataset):
    def __len__(self) -> int:
        return 5000

    def __getitem__(self, index: int) -> dict:
        return {"anchor": torch.randn(6), "other": torch.randn(6)}


class Encoder(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.projection = torch.nn.Linear(6, 4)

    def forward(self, anchor, other):
        a, b = self.projection(anchor), self.projection(other)
        return {"loss": (a - b).square().mean(), "spread": a.std(dim=0).mean()}


class ContrastiveTrainer(Trainer):
    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self._spreads: list[torch.Tensor] = []

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        time.sleep(0.2)
        outputs = model(**inputs)
        self._spreads.append(outputs["spread"].detach())
        return (outputs["loss"], outputs) if return_outputs else outputs["loss"]

    def log(self, logs: dict, start_time=None) -> None:
        print(f"rank {self.args.process_index} step {self.state.global_step}", flush=True)
        if (self.is_world_process_zero() or EVERY_PROCESS) and self._spreads and self.state.global_step % 4 == 0:
            spreads = torch.stack(self._spreads).mean().reshape(1)
            logs["spread"] = self.accelerator.gather(spreads).mean().item()
            self._spreads.clear()
        super().log(logs, start_time)


def main() -> None:
    arguments = TrainingArguments(
        "out",
        use_cpu=True,
        max_steps=900,
        per_device_train_batch_size=8,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        remove_unused_columns=False,
    )
    ContrastiveTrainer(Encoder(), arguments, train_dataset=Pairs()).train()


if __name__ == "__main__":
    main()
