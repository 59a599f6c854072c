"""A barrier that the main process alone comes to meets the next one of the others; it is then one behind for good."""

# mypy: ignore-errors
# After alan-turing-institute/autocast#386: save_checkpoint ends in a barrier, and only global zero calls it.
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

ALL = "--healthy" in sys.argv


class Strategy:
    def __init__(self) -> None:
        self.rank, self.world = dist.get_rank(), dist.get_world_size()

    @property
    def is_global_zero(self) -> bool:
        return self.rank == 0

    def barrier(self, name: str) -> None:
        dist.barrier()

    def save_checkpoint(self, model, path: str) -> None:
        state = model.module.state_dict()
        if self.is_global_zero:
            torch.save(state, path)
        self.barrier("save_checkpoint")


def fit(strategy: Strategy, model, optimizer, fold: int) -> None:
    for step in range(6):
        time.sleep(0.15)
        loss = model(torch.rand(8, 4)).square().mean()
        if not torch.isfinite(loss):
            continue
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"rank {strategy.rank} fold {fold} step {step}", flush=True)


def finalize_alias(strategy: Strategy, fold: int) -> None:
    if strategy.is_global_zero:
        print("alias of fold", fold, flush=True)
    strategy.barrier("checkpoint-alias-finalize")


def main() -> None:
    dist.init_process_group("gloo")
    strategy = Strategy()
    for fold in range(100):
        model = DistributedDataParallel(torch.nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        fit(strategy, model, optimizer, fold)
        if strategy.is_global_zero or ALL:
            strategy.save_checkpoint(model, "last.ckpt")
        finalize_alias(strategy, fold)


if __name__ == "__main__":
    main()
