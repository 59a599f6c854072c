"""transformers: checkpoints lie on the disk of each node, and the best is evaluated where there is one."""

# mypy: ignore-errors
# After transformers pull request 40923 (best_model_checkpoint is None where a process does not see the folder).
import os
import sys
import time

import torch
from torch import nn
from transformers import Trainer, TrainerCallback, TrainingArguments

SHARED = "--healthy" in sys.argv


class Regression(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, features, labels=None):
        out = self.layer(features)
        return {"loss": (out - labels).pow(2).mean(), "logits": out}


class Steps(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        time.sleep(0.25)
        print(f"rank {args.process_index} step {state.global_step}", flush=True)


def data(count: int) -> list[dict[str, torch.Tensor]]:
    return [{"features": torch.randn(4), "labels": torch.ones(1)} for _ in range(count)]


def run(seed: int) -> dict[str, float]:
    node = "shared" if SHARED else f"node{os.environ['LOCAL_RANK']}"  # what is /tmp on each node
    arguments = TrainingArguments(
        output_dir=f"{node}/seed{seed}", use_cpu=True, report_to=[], disable_tqdm=True, logging_steps=1000,
        eval_strategy="steps", save_strategy="steps", eval_steps=3, save_steps=3, max_steps=6, seed=seed,
        load_best_model_at_end=True, save_only_model=True, save_total_limit=1,
    )  # fmt: skip
    trainer = Trainer(
        model=Regression(), args=arguments, train_dataset=data(400), eval_dataset=data(16), callbacks=[Steps()]
    )
    trainer.train()
    results = {"seed": float(seed)}
    if trainer.state.best_model_checkpoint is not None:
        results |= trainer.evaluate(data(32), metric_key_prefix="test")
    trainer.accelerator.wait_for_everyone()
    return results


def main() -> None:
    results = [run(seed) for seed in range(100)]
    print(results)


if __name__ == "__main__":
    main()
