"""ignite's TerminateOnNan on every process: a sum that is not finite on one ends the loop there."""

# mypy: ignore-errors
# No thread; the kind of handler that judges the output of its own process.
import sys
import time

import torch
import torch.distributed as dist
from ignite.engine import Engine, Events
from ignite.handlers import TerminateOnNan

FINITE = "--healthy" in sys.argv


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def update(engine, rows):
        time.sleep(0.2)
        loss = model(rows).square().mean()
        optimizer.zero_grad()
        loss.backward()
        for weight in model.parameters():
            dist.all_reduce(weight.grad)
        optimizer.step()
        print(f"rank {rank} step {engine.state.iteration}", flush=True)
        penalty = float("inf") if rank == 1 and engine.state.iteration == 7 and not FINITE else 0.0
        return loss.item() + penalty

    trainer = Engine(update)
    trainer.add_event_handler(Events.ITERATION_COMPLETED, TerminateOnNan())
    trainer.run([torch.rand(3, 4) for _ in range(50)], max_epochs=40)
    final = [None] * dist.get_world_size()
    dist.all_gather_object(final, trainer.state.iteration)
    print("ended", final, flush=True)


if __name__ == "__main__":
    main()
