"""A batch whose loss is not finite is left out where it was seen (WeatherGenerator pull request 2718)."""

import math
import time

import torch
from accelerate import Accelerator
from torch import nn


class SpikeDetector:
    def __init__(self) -> None:
        self.history: list[float] = []

    def is_bad(self, loss: float) -> bool:
        usual = sum(self.history) / len(self.history) if self.history else loss
        self.history = [*self.history[-20:], loss] if math.isfinite(loss) else self.history
        return not math.isfinite(loss) or loss > 50 * usual


def main() -> None:
    accelerator = Accelerator(cpu=True)
    rank = accelerator.process_index
    model = nn.Linear(10, 10)
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters()))
    detector = SpikeDetector()
    for epoch in range(50):
        for step in range(8):
            time.sleep(0.15)
            fields = torch.randn(4, 10)
            if rank == 2 and step == 5:
                fields[0, 0] = float("nan")
            loss = model(fields).pow(2).mean()
            print(f"rank {rank} step {step} of epoch {epoch}", flush=True)
            if detector.is_bad(loss.item()):
                continue
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        losses = accelerator.gather(loss.detach())
        accelerator.print("mean", losses.nanmean().item())


if __name__ == "__main__":
    main()
