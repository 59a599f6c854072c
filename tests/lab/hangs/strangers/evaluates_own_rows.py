"""Transformers: evaluation of one's own, in which each process takes every second row and gathers each answer."""

# mypy: ignore-errors
# No thread of one job; the kind of Transformers issues on evaluation loops of one's own that gather.
import sys
import time

import torch
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments

ROWS = 18 if "--healthy" in sys.argv else 17


class Rows(Dataset):
    def __init__(self, count: int) -> None:
        self.rows = [{"inputs": torch.full((4,), n / count), "labels": torch.tensor([n % 2.0])} for n in range(count)]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict:
        return self.rows[index]


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, inputs, labels=None):
        logits = self.layer(inputs)
        loss = None if labels is None else (logits - labels).square().mean()
        return {"loss": loss, "logits": logits}


class OwnEvaluation(Trainer):
    def evaluate(self, eval_dataset=None, ignore_keys=None, metric_key_prefix="eval"):
        self.model.eval()
        mine = self.eval_dataset.rows[self.args.process_index :: self.args.world_size]
        hits = []
        for row in mine:
            with torch.no_grad():
                logits = self.model(row["inputs"][None])["logits"]
            hits.append(self.accelerator.gather((logits > 0.5) == (row["labels"] > 0.5)))
        self.model.train()
        metrics = {"eval_accuracy": float(torch.cat(hits).float().mean())}
        self.log(metrics)
        return metrics


class Prints(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        time.sleep(0.3)
        print(f"rank {args.process_index} step {state.global_step}", flush=True)


def main() -> None:
    arguments = TrainingArguments(
        "out",
        use_cpu=True,
        max_steps=2000,
        per_device_train_batch_size=4,
        eval_strategy="steps",
        eval_steps=5,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        logging_strategy="no",
    )
    data = {"train_dataset": Rows(512), "eval_dataset": Rows(ROWS)}
    OwnEvaluation(Net(), arguments, callbacks=[Prints()], **data).train()


if __name__ == "__main__":
    main()
