"""accelerate: a report is written by the last process alone, from losses that it gathers."""

# mypy: ignore-errors
# No thread of one job; the kind of accelerate issues on gather below on_main_process and on_last_process.
import sys
import time

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(cpu=True)
TOGETHER = "--healthy" in sys.argv


@accelerator.on_last_process
def report(step, loss):
    every = loss if TOGETHER else accelerator.gather(loss.detach()[None])
    print("report", step, float(every.mean()), flush=True)


def train(model, optimizer, data) -> None:
    for step, (rows,) in enumerate(data):
        time.sleep(0.2)
        loss = model(rows).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        print(f"rank {accelerator.process_index} step {step}", flush=True)
        if step % 6 == 5:
            report(step, loss)


def main() -> None:
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = DataLoader(TensorDataset(torch.randn(9000, 4)), batch_size=4)
    train(*accelerator.prepare(model, optimizer, data))


if __name__ == "__main__":
    main()
