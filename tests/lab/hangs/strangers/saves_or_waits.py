"""The main process saves, the others wait for everyone in the else branch (accelerate issue 2690)."""

import time

import torch
from accelerate import Accelerator
from torch import nn


def save(accelerator: Accelerator, model: nn.Module) -> None:
    if accelerator.is_main_process:
        unwrapped_model = accelerator.unwrap_model(model)
        torch.save(unwrapped_model.state_dict(), "model.pt")
        print("saved", flush=True)
    else:
        accelerator.wait_for_everyone()


def main() -> None:
    accelerator = Accelerator(cpu=True)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model, optimizer = accelerator.prepare(model, optimizer)
    for step in range(1000):
        time.sleep(0.2)
        loss = model(torch.randn(8, 16)).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        print(f"rank {accelerator.process_index} step {step}", flush=True)
        if step and step % 4 == 0:
            save(accelerator, model)


if __name__ == "__main__":
    main()
