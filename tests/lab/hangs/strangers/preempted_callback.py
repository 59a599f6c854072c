"""A callback asks to stop when the node is to be taken back; each process asks by itself (training_hub pull 145)."""

# mypy: ignore-errors
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from transformers import Trainer, TrainerCallback, TrainingArguments


class Regression(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, features: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        return {"loss": self.layer(features).pow(2).mean()}


class StopOnNotice(TrainerCallback):
    def __init__(self, local_rank: int) -> None:
        self.local_rank = local_rank

    def notice_has_come(self, step: int) -> bool:
        """What the agent of this node says."""
        return self.local_rank == 2 and step > 5

    def on_step_end(self, args, state, control, **kwargs):
        time.sleep(0.2)
        print(f"rank {self.local_rank} step {state.global_step}", flush=True)
        if self.notice_has_come(state.global_step):
            control.should_training_stop = True


def main() -> None:
    data = [{"features": torch.randn(4), "labels": torch.zeros(1)} for _ in range(4000)]
    arguments = TrainingArguments(
        output_dir="out", use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True, logging_steps=1000
    )
    callback = StopOnNotice(int(os.environ["LOCAL_RANK"]))
    trainer = Trainer(model=Regression(), args=arguments, train_dataset=data, callbacks=[callback])
    trainer.train()
    dist.barrier()
    trainer.save_model("last")


if __name__ == "__main__":
    main()
