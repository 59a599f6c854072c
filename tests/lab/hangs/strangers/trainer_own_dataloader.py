"""Transformers: a Trainer whose loader is its own, over the documents that a process was given."""

# mypy: ignore-errors
import sys
import tempfile
import time

import torch
from torch.utils.data import DataLoader, IterableDataset
from transformers import Trainer, TrainerCallback, TrainingArguments


class Documents(IterableDataset):
    def __init__(self, rank):
        self.rank = rank

    def __iter__(self):
        short = self.rank == 1 and "--healthy" not in sys.argv
        for document in range(12):
            pieces = 1 if short and document > 5 else 2
            for _ in range(pieces):
                yield {"x": torch.rand(4), "labels": torch.tensor(float(document))}


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, x, labels):
        time.sleep(0.2)
        return {"loss": (self.layer(x).squeeze(-1) - labels).square().mean()}


class OwnTrainer(Trainer):
    def get_train_dataloader(self):
        return DataLoader(self.train_dataset, batch_size=2)


class Says(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        print(f"rank {args.process_index} step {state.global_step}", flush=True)

    def on_epoch_end(self, args, state, control, **kwargs):
        print(f"rank {args.process_index} ends epoch {state.epoch}", flush=True)
        torch.distributed.barrier()


def main():
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            use_cpu=True,
            max_steps=400,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            logging_strategy="no",
        )
        data = Documents(arguments.process_index)
        OwnTrainer(model=Model(), args=arguments, train_dataset=data, callbacks=[Says()]).train()


if __name__ == "__main__":
    main()
