"""Ignite: the handler that validates is added on rank 0, to whose metrics all processes belong (pytorch/ignite
2895)."""

# mypy: ignore-errors
import sys
import time

import ignite.distributed as idist
import torch
from ignite.engine import Engine, Events
from ignite.metrics import EpochMetric
from torch import nn


def median_error(predicted, wanted):
    return float((predicted - wanted).abs().median())


class Run:
    def __init__(self):
        self.rank = idist.get_rank()
        self.model = nn.Linear(4, 1)
        self.ddp = idist.auto_model(self.model)
        self.optimizer = idist.auto_optim(torch.optim.SGD(self.ddp.parameters(), lr=0.01))
        self.trainer = Engine(self.update)
        self.evaluator = Engine(self.infer)
        EpochMetric(median_error).attach(self.evaluator, "median")

    def update(self, engine, rows):
        time.sleep(0.2)
        self.optimizer.zero_grad()
        self.ddp(rows).square().mean().backward()
        self.optimizer.step()
        print(f"rank {self.rank} step {engine.state.iteration}", flush=True)

    def infer(self, engine, rows):
        with torch.no_grad():
            return self.model(rows), torch.zeros(len(rows), 1)

    def validate(self, engine):
        state = self.evaluator.run([torch.rand(4, 4) for _ in range(2)])
        print(f"median {state.metrics['median']:.3f}", flush=True)

    def attach(self):
        every = Events.ITERATION_COMPLETED(every=5)
        if self.rank == 0 or "--healthy" in sys.argv:
            self.trainer.add_event_handler(every, self.validate)


def main():
    torch.distributed.init_process_group("gloo")
    run = Run()
    run.attach()
    run.trainer.run([torch.rand(4, 4) for _ in range(50)], max_epochs=100)


if __name__ == "__main__":
    main()
