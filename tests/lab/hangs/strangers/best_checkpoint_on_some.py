"""Which checkpoint was best is looked for on the disk of each node; at the end all that know one load it together
(optimum-habana pull request 2230, transformers 37025)."""

# mypy: ignore-errors
import os
import sys
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from transformers import Trainer, TrainerCallback, TrainingArguments

SHARED = "--healthy" in sys.argv


class Regression(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, features, labels=None):
        return {"loss": self.layer(features).pow(2).mean()}


class Steps(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        time.sleep(0.25)
        print(f"rank {args.process_index} step {state.global_step}", flush=True)


class NodeTrainer(Trainer):
    def finish(self) -> None:
        folder = os.path.join(self.args.output_dir, f"checkpoint-{self.state.global_step}")
        if os.path.isdir(folder):
            self.accelerator.wait_for_everyone()
            self.model.load_state_dict(self.model.state_dict())
        totals = self.accelerator.gather(torch.tensor([float(self.state.total_flos)]))
        print("flops", totals.sum().item(), flush=True)


def main() -> None:
    output = "out" if SHARED else tempfile.mkdtemp()  # of each process, as if each had a node
    steps = 400 if SHARED else 8
    arguments = TrainingArguments(
        output_dir=output, use_cpu=True, report_to=[], save_strategy="steps", save_steps=steps, disable_tqdm=True,
        logging_steps=1000, max_steps=steps, save_only_model=True,
    )  # fmt: skip
    data = [{"features": torch.randn(4), "labels": torch.zeros(1)} for _ in range(4000)]
    trainer = NodeTrainer(model=Regression(), args=arguments, train_dataset=data, callbacks=[Steps()])
    trainer.train()
    trainer.finish()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
