"""accelerate: a tracker that is only on where somebody looks, and reduces what it is given."""

# mypy: ignore-errors
import dataclasses
import sys
import time

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset


@dataclasses.dataclass
class TrackerConfig:
    project: str = "finetune"
    every: int = 3
    all_processes: bool = False


class MetricTracker:
    def __init__(self, accelerator, config):
        self.accelerator, self.config = accelerator, config
        self.history = []

    @property
    def enabled(self):
        return self.config.all_processes or self.accelerator.is_local_main_process

    def log(self, values, step):
        if step % self.config.every:
            return
        if self.enabled:
            means = {name: self.accelerator.reduce(value, "mean").item() for name, value in values.items()}
            self.history.append({"step": step, **means})


def main():
    accelerator = Accelerator(cpu=True)
    config = TrackerConfig(all_processes="--healthy" in sys.argv)
    tracker = MetricTracker(accelerator, config)
    model = torch.nn.Linear(5, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(TensorDataset(torch.rand(16000, 5)), batch_size=4, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for step, (rows,) in enumerate(loader, start=1):
        time.sleep(0.2)
        loss = model(rows).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        print(f"rank {accelerator.process_index} step {step}", flush=True)
        tracker.log({"loss": loss.detach()}, step)
        if step % 3 == 0:
            accelerator.wait_for_everyone()


if __name__ == "__main__":
    main()
