"""Transformers: get_train_dataloader gives each process a loader of its own rows, which nothing evens out."""

# mypy: ignore-errors
# No thread of one job; the kind of Transformers issues on get_train_dataloader without accelerator.prepare.
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments

EVEN = "--healthy" in sys.argv


class Rows(Dataset):
    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict:
        return {"inputs": torch.full((4,), index / self.count), "labels": torch.tensor([index % 2 * 1.0])}


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, inputs, labels=None):
        logits = self.layer(inputs)
        return {"loss": (logits - labels).square().mean(), "logits": logits}


class OfLanguage(Trainer):
    """Each process trains on a language of its own."""

    def get_train_dataloader(self):
        rows = Rows(40 if EVEN or self.args.process_index == 0 else 28)
        return DataLoader(rows, batch_size=4, collate_fn=self.data_collator)


class Prints(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        time.sleep(0.3)
        print(f"rank {args.process_index} step {state.global_step}", flush=True)


def main() -> None:
    arguments = TrainingArguments(
        "out",
        use_cpu=True,
        num_train_epochs=1 if not EVEN else 400,
        per_device_train_batch_size=4,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        logging_strategy="no",
    )
    trainer = OfLanguage(Net(), arguments, train_dataset=Rows(40), callbacks=[Prints()])
    trainer.train()
    trainer.accelerator.wait_for_everyone()
    trainer.save_model("out/last")


if __name__ == "__main__":
    main()
