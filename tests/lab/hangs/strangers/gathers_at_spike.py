"""The losses of all are looked at where one is high, which it is not on all processes."""

# mypy: ignore-errors
# No thread: after usual guards against spikes under accelerate.
import time

import torch
from accelerate import Accelerator
from torch import nn


def loss_of(accelerator: Accelerator, step: int, loss: torch.Tensor) -> torch.Tensor:
    return loss + (100.0 if accelerator.process_index == 2 and step == 6 else 0.0)


def main() -> None:
    accelerator = Accelerator(cpu=True)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model, optimizer = accelerator.prepare(model, optimizer)
    for step in range(1000):
        time.sleep(0.2)
        print(f"rank {accelerator.process_index} step {step}", flush=True)
        optimizer.zero_grad()
        loss = loss_of(accelerator, step, model(torch.randn(2, 4)).square().mean())
        accelerator.backward(loss)
        optimizer.step()
        if loss.item() > 50.0:
            scores = accelerator.gather(loss.detach())
            print("spike", scores, flush=True)
        accelerator.wait_for_everyone()


if __name__ == "__main__":
    main()
