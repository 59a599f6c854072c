"""ignite: early stopping looks at a score that the evaluator has computed of this process's own half."""

# mypy: ignore-errors
# The kind of ignite questions on EarlyStopping with several processes. No thread of one job.
import sys
import time

import ignite.distributed as idist
import torch
from ignite.engine import Engine, Events
from ignite.handlers import EarlyStopping
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

REDUCED = "--healthy" in sys.argv


class Run:
    def __init__(self) -> None:
        self.rank = idist.get_rank()
        self.model = DistributedDataParallel(torch.nn.Linear(6, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.trainer, self.evaluator = Engine(self.step), Engine(self.judge)
        self.evaluator.add_event_handler(
            Events.COMPLETED, EarlyStopping(patience=2, score_function=self.score, trainer=self.trainer)
        )
        self.trainer.add_event_handler(Events.ITERATION_COMPLETED(every=3), self.evaluate)
        self.errors: list[float] = []

    def step(self, engine, batch):
        time.sleep(0.2)
        self.optimizer.zero_grad()
        loss = self.model(batch[0]).square().mean()
        loss.backward()
        self.optimizer.step()
        print(f"rank {self.rank} step {engine.state.iteration}", flush=True)
        return loss.item()

    def judge(self, engine, batch):
        with torch.no_grad():
            self.errors.append(self.model.module(batch[0]).abs().mean().item())

    def evaluate(self, engine):
        self.errors.clear()
        self.evaluator.run(self.held_out)

    def score(self, engine) -> float:
        error = sum(self.errors) / len(self.errors)
        if self.rank == 1:  # its half is noise, and gets no better
            error = 1.0 + (0.0 if REDUCED else self.trainer.state.iteration / 100)
        else:
            error = 1.0 / self.trainer.state.iteration
        return -(idist.all_reduce(error) if REDUCED else error)

    def run(self) -> None:
        rows = TensorDataset(torch.randn(2000, 6))
        self.held_out = DataLoader(TensorDataset(torch.randn(16, 6)), batch_size=8)
        self.trainer.run(DataLoader(rows, batch_size=4), max_epochs=4)
        idist.barrier()
        if self.rank == 0:
            torch.save(self.model.state_dict(), "final.pt")


def main() -> None:
    idist.initialize("gloo")
    Run().run()
    idist.finalize()


if __name__ == "__main__":
    main()
