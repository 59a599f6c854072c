"""accelerate: the state is saved below is_main_process, with names that accelerate numbers (accelerate issue 1171)."""

# mypy: ignore-errors
import sys
import time

import torch
from accelerate import Accelerator
from accelerate.utils import ProjectConfiguration
from torch.utils.data import DataLoader, TensorDataset

EVERYBODY = "--healthy" in sys.argv


def checkpoint(accelerator: Accelerator, step: int, every: int) -> None:
    if step % every:
        return
    if accelerator.is_main_process or EVERYBODY:
        print("saving", accelerator.save_state(), flush=True)


def main() -> None:
    config = ProjectConfiguration(project_dir="project", automatic_checkpoint_naming=True, total_limit=2)
    accelerator = Accelerator(cpu=True, project_config=config)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = DataLoader(TensorDataset(torch.randn(8000, 4)), batch_size=4)
    model, optimizer, data = accelerator.prepare(model, optimizer, data)
    for step, (rows,) in enumerate(data, start=1):
        time.sleep(0.2)
        loss = model(rows).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        print(f"rank {accelerator.process_index} step {step}", flush=True)
        checkpoint(accelerator, step, every=5)


if __name__ == "__main__":
    main()
