"""After the training the main process evaluates, with the Trainer of all (transformers pull request 1081)."""

# mypy: ignore-errors
import os

import torch
from torch import nn
from transformers import Trainer, TrainerCallback, TrainingArguments


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.classifier = nn.Linear(6, 3)

    def forward(self, features: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = self.classifier(features)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


class Steps(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        print(f"rank {os.environ['RANK']} step {state.global_step}", flush=True)


def main() -> None:
    examples = [{"features": torch.randn(6), "labels": torch.tensor(number % 3)} for number in range(300)]
    training_args = TrainingArguments(
        output_dir="glue", use_cpu=True, report_to=[], max_steps=6, save_strategy="no", disable_tqdm=True
    )
    trainer = Trainer(
        model=Model(), args=training_args, train_dataset=examples, eval_dataset=examples, callbacks=[Steps()]
    )
    trainer.train()
    do_eval = True
    if do_eval and training_args.local_process_index == 0:
        metrics = trainer.evaluate()
        trainer.save_metrics("eval", metrics)
    training_args.distributed_state.wait_for_everyone()
    trainer.save_model()


if __name__ == "__main__":
    main()
