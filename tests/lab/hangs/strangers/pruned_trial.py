"""A trial that the study prunes: the first rank goes on to the next one, the others train (optuna's DDP examples)."""

import random
import time
from typing import Any

import torch
import torch.distributed as dist


class TrialPruned(Exception):
    pass


class Trial:
    def __init__(self, number: int) -> None:
        self.number = number
        self.values: list[float] = []

    def report(self, value: float) -> None:
        self.values.append(value)

    def should_prune(self) -> bool:
        return self.number == 1 and len(self.values) > 3


def objective(trial: Trial | None, parameters: dict[str, Any]) -> None:
    for epoch in range(8):
        time.sleep(0.2)
        loss = torch.tensor([parameters["lr"] / (epoch + 1)])
        dist.all_reduce(loss)
        print(f"rank {dist.get_rank()} step {epoch}", flush=True)
        if trial is not None:
            trial.report(loss.item())
            if trial.should_prune():
                raise TrialPruned


def optimize(trials: int) -> None:
    for number in range(trials):
        trial = Trial(number) if dist.get_rank() == 0 else None
        chosen: list[Any] = [{"lr": random.random()} if trial else None]
        dist.broadcast_object_list(chosen, src=0)
        try:
            objective(trial, chosen[0])
        except TrialPruned:
            print("pruned", flush=True)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    optimize(20)
