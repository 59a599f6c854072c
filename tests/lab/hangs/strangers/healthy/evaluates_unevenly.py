"""An evaluation whose batches take longer on one process; all gather what came out (accelerate issue 157)."""

import time

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader


def main() -> None:
    accelerator = Accelerator(cpu=True)
    rank = accelerator.process_index
    model, loader = accelerator.prepare(nn.Linear(4, 2), DataLoader(torch.randn(20_000, 4), batch_size=4))
    for step, batch in enumerate(loader):
        if step > 2:
            time.sleep(2.8 if rank == 0 else 0.4)  # long answers first
        with torch.no_grad():
            predictions = model(batch).argmax(-1)
        accelerator.gather_for_metrics(predictions)
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
