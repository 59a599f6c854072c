"""Gradients are accumulated over batches that take longer on one process than on the other."""

# mypy: ignore-errors
import time

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=4)
    model = torch.nn.Linear(8, 2)
    loader = DataLoader(TensorDataset(torch.randn(4000, 8)), batch_size=2)
    model, loader = accelerator.prepare(model, loader)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    rank = accelerator.process_index
    for step, (batch,) in enumerate(loader):
        time.sleep(0.3 + 0.5 * rank)
        with accelerator.accumulate(model):
            accelerator.backward(model(batch).square().mean())
            if accelerator.sync_gradients:
                optimizer.step()
                optimizer.zero_grad()
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
