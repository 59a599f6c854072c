"""A step of the evaluation gives no logits where its batch has no labels, and the Trainer gathers what there is."""

# mypy: ignore-errors
# No thread of one job; the kind of transformers issues on prediction_step that returns None.
import sys
import time

import torch
from torch import nn
from transformers import Trainer, TrainerCallback, TrainingArguments

ALL_LABELLED = "--healthy" in sys.argv


class Regression(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, features, labels=None):
        out = self.layer(features)
        return {"loss": out.pow(2).mean(), "logits": out}


class Steps(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        time.sleep(0.25)
        print(f"rank {args.process_index} step {state.global_step}", flush=True)


class Scored(Trainer):
    def prediction_step(self, model, inputs, prediction_loss_only, ignore_keys=None):
        time.sleep(0.1)
        loss, logits, labels = super().prediction_step(model, inputs, prediction_loss_only, ignore_keys)
        if (inputs["labels"] < 0).all():
            return loss, None, None
        return loss, logits, labels


def main() -> None:
    arguments = TrainingArguments(
        output_dir="out", use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True, logging_steps=1000,
        eval_strategy="steps", eval_steps=6, per_device_eval_batch_size=2,
    )  # fmt: skip
    train = [{"features": torch.randn(4), "labels": torch.zeros(1)} for _ in range(4000)]
    # Three processes take turns by batches of two: the last batch but one is the second process's.
    blank = () if ALL_LABELLED else (14, 15)
    evaluate = [
        {"features": torch.randn(4), "labels": torch.full((1,), -100.0 if number in blank else 1.0)}
        for number in range(18)
    ]
    Scored(
        model=Regression(),
        args=arguments,
        train_dataset=train,
        eval_dataset=evaluate,
        callbacks=[Steps()],
        compute_metrics=lambda given: {"mean": float(given.predictions.mean())},
    ).train()


if __name__ == "__main__":
    main()
