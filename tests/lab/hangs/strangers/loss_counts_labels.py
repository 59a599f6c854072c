"""Transformers: a loss over all labels of all processes, counted only where a batch has any."""

# mypy: ignore-errors
# After threads on num_items_in_batch and gather in compute_loss; no one of them.
import sys
import time

import torch
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments

FULL = "--healthy" in sys.argv


class Dialogues(Dataset):
    """Token ids, of which only the answer is learned; some have none after they are cut."""

    def __len__(self):
        return 4000

    def __getitem__(self, index):
        tokens = torch.arange(index, index + 6) % 32
        labels = tokens.clone()
        labels[: 6 if 60 <= index < 64 and not FULL else 3] = -100
        return {"input_ids": tokens, "labels": labels}


class Tagger(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(32, 8)
        self.head = torch.nn.Linear(8, 32)

    def forward(self, input_ids, labels=None):
        return {"logits": self.head(self.embed(input_ids))}


class TokenLossTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        outputs = model(**inputs)
        logits, labels = outputs["logits"].flatten(0, 1), inputs["labels"].flatten()
        loss = torch.nn.functional.cross_entropy(logits, labels, ignore_index=-100, reduction="sum")
        counted = (labels != -100).sum()
        if counted > 0:
            everywhere = self.accelerator.gather(counted)
            loss = loss * len(everywhere) / everywhere.sum()
        return (loss, outputs) if return_outputs else loss


class Prints(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        time.sleep(0.3)
        print(f"rank {args.process_index} step {state.global_step}", flush=True)


def main():
    arguments = TrainingArguments(
        "out",
        use_cpu=True,
        max_steps=2000,
        per_device_train_batch_size=4,
        train_sampling_strategy="sequential",
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        logging_strategy="no",
        max_grad_norm=0.0,
        dataloader_num_workers=0,
    )
    trainer = TokenLossTrainer(Tagger(), arguments, train_dataset=Dialogues(), callbacks=[Prints()])
    trainer.train()


if __name__ == "__main__":
    main()
