"""A callback of Transformers' Trainer asks for an evaluation when the loss of its own process is high."""

# mypy: ignore-errors
# No thread; the kind of callback that sets the control by what one process has seen.
import sys
import tempfile
import time

import torch
import torch.distributed as dist
from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainerCallback, TrainingArguments

SHARED = "--healthy" in sys.argv


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 4000

    def __getitem__(self, index):
        return {"x": torch.rand(6), "labels": torch.rand(1)}


class Regression(PreTrainedModel):
    config_class = PretrainedConfig

    def __init__(self, config):
        super().__init__(config)
        self.head = torch.nn.Linear(6, 1)
        self.last_loss = 0.0
        self.post_init()

    def forward(self, x, labels):
        out = self.head(x)
        loss = (out - labels).square().mean()
        self.last_loss = loss.item()
        return {"loss": loss, "logits": out}


class EvaluateOnSpike(TrainerCallback):
    def __init__(self, limit):
        self.limit = limit
        self.rank = dist.get_rank()

    def on_step_end(self, args, state, control, model=None, **kwargs):
        time.sleep(0.2)
        inner = model.module if hasattr(model, "module") else model
        spike = inner.last_loss + 9 * (self.rank == 1 and state.global_step == 6)
        if SHARED:
            every = torch.tensor([spike])
            dist.all_reduce(every, op=dist.ReduceOp.MAX)
            spike = every.item()
        if spike > self.limit:
            control.should_evaluate = True
        print(f"rank {self.rank} step {state.global_step}", flush=True)
        return control


def main():
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            folder,
            max_steps=1500,
            per_device_train_batch_size=2,
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            save_strategy="no",
            logging_strategy="no",
        )
        model = Regression(PretrainedConfig())
        few = torch.utils.data.Subset(Rows(), range(8))
        trainer = Trainer(model, args, train_dataset=Rows(), eval_dataset=few, callbacks=[EvaluateOnSpike(4.0)])
        trainer.train()


if __name__ == "__main__":
    main()
