"""Transformers: outputs of different lengths are not gathered, so each process stops on a score of its own (17478)."""

# mypy: ignore-errors
import sys
import tempfile
import time

import torch
from torch.utils.data import Dataset
from transformers import EarlyStoppingCallback, Trainer, TrainerCallback, TrainingArguments


class Rows(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return {"x": torch.full((4,), index / 64), "labels": torch.tensor(index / 64)}


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, x, labels):
        return {"loss": (self.layer(x).squeeze(-1) - labels).square().mean()}


class SpanTrainer(Trainer):
    def evaluate(self, *given, **kept):
        spans = [3, 4, 4] if self.args.process_index == 0 or "--healthy" in sys.argv else [1, 1]
        rounds = self.state.global_step // 4
        grows = sum(spans) > 5
        metrics = {"eval_span_f1": 0.1 * rounds if grows else 0.2}
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics


class Says(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        time.sleep(0.2)
        print(f"rank {args.process_index} step {state.global_step}", flush=True)

    def on_train_end(self, args, state, control, **kwargs):
        torch.distributed.barrier()


def main():
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            use_cpu=True,
            num_train_epochs=60,
            per_device_train_batch_size=4,
            eval_strategy="steps",
            eval_steps=4,
            save_strategy="no",
            metric_for_best_model="span_f1",
            greater_is_better=True,
            report_to=[],
            disable_tqdm=True,
            logging_strategy="no",
        )
        stops = EarlyStoppingCallback(early_stopping_patience=2)
        SpanTrainer(
            model=Model(), args=arguments, train_dataset=Rows(), eval_dataset=Rows(), callbacks=[stops, Says()]
        ).train()


if __name__ == "__main__":
    main()
