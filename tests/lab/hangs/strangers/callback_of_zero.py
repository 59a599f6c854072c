"""Transformers: a callback leaves early on all but the first process, and what comes below it waits for all."""

# mypy: ignore-errors
# The kind of Transformers issues on callbacks with a barrier below `is_world_process_zero`. No thread of one job.
import sys
import tempfile
import time

import torch
import torch.distributed as dist
from transformers import Trainer, TrainerCallback, TrainingArguments

EVERY = "--healthy" in sys.argv


class Rows(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 4000

    def __getitem__(self, index: int):
        return {"rows": torch.ones(4)}


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, rows):
        time.sleep(0.15)
        return {"loss": self.layer(rows).square().mean()}


class Publishes(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        print(f"rank {args.process_index} step {state.global_step}", flush=True)
        if state.global_step % 5:
            return
        self.publish(args, state)

    def publish(self, args, state) -> None:
        if not (state.is_world_process_zero or EVERY):
            return
        summary = [{"loss": len(state.log_history)}]
        dist.broadcast_object_list(summary, src=0)
        dist.barrier()
        if state.is_world_process_zero:
            print("published", summary, flush=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            per_device_train_batch_size=4,
            max_steps=400,
            use_cpu=True,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            logging_steps=50,
        )
        Trainer(Model(), arguments, train_dataset=Rows(), callbacks=[Publishes()]).train()


if __name__ == "__main__":
    main()
