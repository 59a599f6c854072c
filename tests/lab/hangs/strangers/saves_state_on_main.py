"""The state of accelerate is saved by the main process alone."""

# mypy: ignore-errors
# No thread: after a usual `if accelerator.is_main_process`.
import time
from pathlib import Path

import torch
from accelerate import Accelerator
from torch import nn


def save(accelerator: Accelerator, step: int) -> None:
    folder = Path(f"state-{step}")
    accelerator.save_state(str(folder))
    print("saved", folder, flush=True)


def main() -> None:
    accelerator = Accelerator(cpu=True)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model, optimizer = accelerator.prepare(model, optimizer)
    for step in range(1000):
        time.sleep(0.2)
        optimizer.zero_grad()
        accelerator.backward(model(torch.randn(2, 4)).mean())
        optimizer.step()
        print(f"rank {accelerator.process_index} step {step}", flush=True)
        if step and step % 5 == 0 and accelerator.is_main_process:
            save(accelerator, step)


if __name__ == "__main__":
    main()
