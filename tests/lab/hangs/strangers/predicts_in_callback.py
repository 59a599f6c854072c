"""Transformers: after some steps a callback shows what the model would say, on the main process alone."""

# mypy: ignore-errors
# No thread of one job; the kind of Transformers issues on trainer.predict and trainer.evaluate in callbacks.
import sys
import time

import torch
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments

EVERYBODY = "--healthy" in sys.argv


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


class ShowsSamples(TrainerCallback):
    def __init__(self, samples: Dataset) -> None:
        self.samples, self.trainer = samples, None

    def on_step_end(self, args, state, control, **kwargs):
        time.sleep(0.3)
        print(f"rank {args.process_index} step {state.global_step}", flush=True)
        if state.global_step % 4 == 0 and (EVERYBODY or state.is_world_process_zero):
            output = self.trainer.predict(self.samples)
            print("samples", output.predictions[:2].tolist(), flush=True)


def main() -> None:
    arguments = TrainingArguments(
        "out",
        use_cpu=True,
        max_steps=4000,
        per_device_train_batch_size=4,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        logging_strategy="no",
    )
    shows = ShowsSamples(Rows(16))
    trainer = Trainer(Net(), arguments, train_dataset=Rows(512), callbacks=[shows])
    shows.trainer = trainer
    trainer.train()


if __name__ == "__main__":
    main()
