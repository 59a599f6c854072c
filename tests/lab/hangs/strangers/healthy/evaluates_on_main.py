"""Generation of samples on the main process, of which each takes a second; the others wait for everyone."""

import time

import torch
from accelerate import Accelerator
from torch import nn


def sample(model: nn.Module, count: int) -> None:
    for number in range(count):
        time.sleep(1.0)  # what a GPU would take
        model(torch.randn(1, 4))
        print("sample", number, flush=True)


def main() -> None:
    accelerator = Accelerator(cpu=True)
    model = accelerator.prepare(nn.Linear(4, 4))
    for step in range(10_000):
        time.sleep(0.2)
        accelerator.backward(model(torch.randn(2, 4)).sum())
        print(f"rank {accelerator.process_index} step {step}", flush=True)
        if step % 10 == 2:
            if accelerator.is_main_process:
                sample(accelerator.unwrap_model(model), 30)
            accelerator.wait_for_everyone()


if __name__ == "__main__":
    main()
