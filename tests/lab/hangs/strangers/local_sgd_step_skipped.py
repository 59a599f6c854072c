"""Accelerate's LocalSGD: a batch whose loss is no number is skipped, and with it the step that counts."""

# mypy: ignore-errors
import sys
import time

import torch
from accelerate import Accelerator
from accelerate.local_sgd import LocalSGD


def batch_of(rank, step):
    rows = torch.randn(4, 6)
    if (rank, step) == (1, 4) and "--healthy" not in sys.argv:
        rows[0, 0] = float("inf")
    return rows


def main():
    accelerator = Accelerator(cpu=True)
    rank = accelerator.process_index
    torch.manual_seed(0)
    model = torch.nn.Linear(6, 1)
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=1e-3))
    with LocalSGD(accelerator=accelerator, model=model, local_sgd_steps=3, enabled=True) as local_sgd:
        for step in range(2000):
            time.sleep(0.2)
            print(f"rank {rank} step {step}", flush=True)
            loss = model(batch_of(rank, step)).square().mean()
            if not torch.isfinite(loss):
                continue
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            local_sgd.step()
            if step % 9 == 8:
                mean = accelerator.reduce(loss.detach(), reduction="mean")
                accelerator.print(f"loss {mean:.3f}")


if __name__ == "__main__":
    main()
