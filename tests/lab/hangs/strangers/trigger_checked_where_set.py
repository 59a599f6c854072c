"""accelerate: a process whose loss is not finite sets the trigger that ends the training of all, and looks at it."""

# mypy: ignore-errors
# No thread of one job; after accelerate's guide on breakpoints across processes, check_trigger below the condition.
import math
import sys
import time

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

FINITE = "--healthy" in sys.argv


class Policy:
    def __init__(self, accelerator: Accelerator) -> None:
        self.accelerator = accelerator
        self.weight = torch.zeros(4, requires_grad=True)

    def loss(self, batch: torch.Tensor, step: int) -> torch.Tensor:
        ratio = (batch @ self.weight).exp().mean()
        if step == 5 and self.accelerator.process_index == 0 and not FINITE:
            ratio = ratio * float("inf")
        return ratio

    def update(self, advantages: torch.Tensor) -> None:
        with torch.no_grad():
            self.weight -= 1e-4 * advantages.mean()


def main() -> None:
    accelerator = Accelerator(cpu=True)
    loader = accelerator.prepare(DataLoader(TensorDataset(torch.rand(6000, 4)), batch_size=2))
    policy = Policy(accelerator)
    for step, (batch,) in enumerate(loader):
        time.sleep(0.3)
        print(f"rank {accelerator.process_index} step {step}", flush=True)
        loss = policy.loss(batch, step)
        if not math.isfinite(loss.item()):
            accelerator.set_trigger()
            if accelerator.check_trigger():
                accelerator.print("the loss is not finite: over")
                break
        policy.update(accelerator.gather(loss.detach()))
    accelerator.end_training()


if __name__ == "__main__":
    main()
