"""accelerate: predictions are gathered until this process has seen enough that are usable."""

# mypy: ignore-errors
# No thread of one job; the kind of accelerate issue 157 and forum posts on gather_for_metrics with `break`.
import sys
import time

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

QUALITY = (4, 4, 4) if "--healthy" in sys.argv else (4, 4, 1)


def evaluate(accelerator: Accelerator, model, loader, wanted: int = 12) -> float:
    usable, scores = 0, []
    for (batch,) in loader:
        time.sleep(0.1)
        scores.append(accelerator.gather_for_metrics(model(batch)).mean())
        usable += QUALITY[accelerator.process_index]
        if usable >= wanted:
            break
    return float(torch.stack(scores).mean())


def main() -> None:
    accelerator = Accelerator(cpu=True)
    rank = accelerator.process_index
    loader = accelerator.prepare(DataLoader(TensorDataset(torch.randn(120, 4)), batch_size=4))
    model = torch.nn.Linear(4, 1)
    for step in range(1000):
        time.sleep(0.3)
        print(f"rank {rank} step {step}", flush=True)
        accelerator.reduce(torch.randn(4))
        if step % 4 == 3:
            score = evaluate(accelerator, model, loader)
            accelerator.wait_for_everyone()
            accelerator.print("score", score)


if __name__ == "__main__":
    main()
