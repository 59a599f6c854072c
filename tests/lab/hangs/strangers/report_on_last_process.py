"""accelerate's decorator for the last process around a report that gathers."""

# mypy: ignore-errors
# After huggingface/accelerate issue 2785 (a gather under is_main_process), of another decorator, written anew.
import sys
import time

import torch
from accelerate import Accelerator
from accelerate.state import PartialState

GATHER_FIRST = "--healthy" in sys.argv
state = PartialState(cpu=True)
accelerator = Accelerator(cpu=True)


@state.on_last_process
def report(loss):
    losses = loss if GATHER_FIRST else accelerator.gather(loss)
    print("mean loss", round(losses.mean().item(), 3), flush=True)


def main():
    rank = accelerator.process_index
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model, optimizer = accelerator.prepare(model, optimizer)
    for step in range(1000):
        time.sleep(0.2)
        loss = model(torch.rand(4, 3)).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        print(f"rank {rank} step {step}", flush=True)
        if step % 6 == 5:
            report(accelerator.gather(loss.detach()) if GATHER_FIRST else loss.detach())


if __name__ == "__main__":
    main()
