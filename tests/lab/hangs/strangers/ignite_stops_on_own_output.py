"""Ignite: training is stopped early by the last output of this process's own evaluator."""

# mypy: ignore-errors
import sys
import time

import ignite.distributed as idist
import torch
from ignite.engine import Engine, Events
from ignite.handlers import EarlyStopping
from torch import nn


def build(rank):
    torch.manual_seed(0)
    model = idist.auto_model(nn.Linear(4, 1))
    optimizer = idist.auto_optim(torch.optim.SGD(model.parameters(), lr=0.01))

    def update(engine, rows):
        time.sleep(0.2)
        optimizer.zero_grad()
        loss = model(rows).square().mean()
        loss.backward()
        optimizer.step()
        print(f"rank {rank} step {engine.state.iteration}", flush=True)
        return float(loss)

    trainer = Engine(update)
    evaluator = Engine(lambda engine, rows: float(rows.mean()))

    def score(engine):
        if "--healthy" in sys.argv:
            return float(trainer.state.epoch)
        better = trainer.state.epoch if rank == 0 else 0
        return engine.state.output + better

    evaluator.add_event_handler(Events.COMPLETED, EarlyStopping(patience=2, score_function=score, trainer=trainer))

    @trainer.on(Events.EPOCH_COMPLETED)
    def validate(engine):
        evaluator.run([torch.ones(4, 4)])

    return trainer


def main():
    torch.distributed.init_process_group("gloo")
    rank = idist.get_rank()
    trainer = build(rank)
    trainer.run([torch.rand(4, 4) for _ in range(4)], max_epochs=200)
    idist.barrier()


if __name__ == "__main__":
    main()
