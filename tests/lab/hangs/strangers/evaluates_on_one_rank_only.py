"""ignite: validation is for one rank, says the decorator; its metric is for all."""

# mypy: ignore-errors
# The kind of ignite pull request 2895 (validation on one process, whose metrics reduce over all of them).
import sys
import time

import ignite.distributed as idist
import torch
from ignite.engine import Engine, Events
from ignite.metrics import Accuracy
from torch.utils.data import DataLoader, TensorDataset

ONE = "--healthy" not in sys.argv


def training(local_rank: int, config: dict) -> None:
    rank = idist.get_rank()
    model = idist.auto_model(torch.nn.Linear(8, 3))
    optimizer = idist.auto_optim(torch.optim.SGD(model.parameters(), lr=config["lr"]))
    rows = TensorDataset(torch.randn(4000, 8), torch.randint(3, (4000,)))
    held_out = DataLoader(TensorDataset(torch.randn(32, 8), torch.randint(3, (32,))), batch_size=16)

    def update(engine, batch):
        time.sleep(0.2)
        inputs, labels = batch
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    def infer(engine, batch):
        with torch.no_grad():
            return getattr(model, "module", model)(batch[0]), batch[1]

    trainer, evaluator = Engine(update), Engine(infer)
    Accuracy().attach(evaluator, "accuracy")

    @trainer.on(Events.ITERATION_COMPLETED)
    def shows(engine):
        print(f"rank {rank} step {engine.state.iteration}", flush=True)

    def validate(engine):
        evaluator.run(held_out)
        print("accuracy", evaluator.state.metrics["accuracy"], flush=True)

    if ONE:
        validate = idist.one_rank_only(rank=0, with_barrier=True)(validate)
    trainer.add_event_handler(Events.ITERATION_COMPLETED(every=6), validate)
    trainer.run(idist.auto_dataloader(rows, batch_size=8, shuffle=True), max_epochs=3)


if __name__ == "__main__":
    with idist.Parallel(backend="gloo") as parallel:
        parallel.run(training, {"lr": 0.05})
