"""Accelerate: how many batches make a step follows from the memory that a process finds free."""

# mypy: ignore-errors
import os
import sys
import time

import torch
from accelerate import Accelerator


def free_gigabytes():
    crowded = os.environ.get("LOCAL_RANK") == "1" and "--healthy" not in sys.argv
    return 20 if crowded else 60


def accumulation(batch=64):
    fits = 64 if free_gigabytes() >= 40 else 16
    return batch // fits


def main():
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=accumulation())
    model = torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rank, losses = accelerator.process_index, []
    for step in range(2000):
        time.sleep(0.2)
        with accelerator.accumulate(model):
            loss = model(torch.rand(4, 8)).square().mean()
            accelerator.backward(loss)
            losses.append(loss.detach())
            print(f"rank {rank} step {step}", flush=True)
            if accelerator.sync_gradients:
                mean = accelerator.gather(torch.stack(losses).mean()).mean()
                losses.clear()
                accelerator.print(f"loss {mean:.3f}")
                optimizer.step()
                optimizer.zero_grad()
        if step % 8 == 7:
            accelerator.wait_for_everyone()


if __name__ == "__main__":
    main()
