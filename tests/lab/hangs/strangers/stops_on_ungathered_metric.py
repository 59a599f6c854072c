"""Transformers: EarlyStoppingCallback on a metric that each process computes of its own answers (issue 17478)."""

# mypy: ignore-errors
import sys
import time

import torch
from torch.utils.data import Dataset
from transformers import EarlyStoppingCallback, Trainer, TrainerCallback, TrainingArguments

GATHERED = "--healthy" in sys.argv


class Rows(Dataset):
    def __len__(self) -> int:
        return 256

    def __getitem__(self, index: int) -> dict:
        return {"inputs": torch.full((4,), index / 256), "labels": torch.tensor([index % 2 * 1.0])}


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, inputs, labels=None):
        logits = self.layer(inputs)
        return {"loss": (logits - labels).square().mean(), "logits": logits}


class Answers(Trainer):
    """Its answers are texts, which nobody gathers."""

    rounds = 0

    def evaluate(self, eval_dataset=None, ignore_keys=None, metric_key_prefix="eval"):
        self.rounds += 1
        texts = [f"answer {self.rounds}" for _ in range(4)]
        good = float(self.rounds)
        if self.args.process_index == 1 and not GATHERED:
            good = min(good, 1.0)
        metrics = {f"{metric_key_prefix}_exact": good * len(texts)}
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics


class Prints(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        time.sleep(0.3)
        print(f"rank {args.process_index} step {state.global_step}", flush=True)


def main() -> None:
    arguments = TrainingArguments(
        "out",
        use_cpu=True,
        max_steps=3000,
        per_device_train_batch_size=4,
        eval_strategy="steps",
        eval_steps=2,
        save_strategy="no",
        metric_for_best_model="exact",
        greater_is_better=True,
        report_to=[],
        disable_tqdm=True,
        logging_strategy="no",
    )
    callbacks = [EarlyStoppingCallback(early_stopping_patience=2), Prints()]
    trainer = Answers(Net(), arguments, train_dataset=Rows(), eval_dataset=Rows(), callbacks=callbacks)
    trainer.train()
    trainer.accelerator.wait_for_everyone()


if __name__ == "__main__":
    main()
