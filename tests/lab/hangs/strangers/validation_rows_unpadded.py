"""Validation rows are dealt out by a stride and not padded, and each batch of them is reduced."""

# mypy: ignore-errors
# After Lightning-AI/pytorch-lightning#20561 and pytorch/torchtitan#1618: validation stuck where data differ in size.
import sys
import time

import torch
import torch.distributed as dist
from references_kit import MetricLogger, reduce_dict
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Subset, TensorDataset

ROWS = 40 if "--healthy" in sys.argv else 45


class EarlyStopping:
    def __init__(self, patience: int) -> None:
        self.patience, self.best, self.bad = patience, None, 0

    def should_stop(self, loss: float) -> bool:
        if self.best is None or loss < self.best:
            self.best, self.bad = loss, 0
        else:
            self.bad += 1
        return self.bad >= self.patience


@torch.no_grad()
def evaluate(model, loader) -> float:
    model.eval()
    logger = MetricLogger()
    for (rows,) in logger.log_every(loader, 5, "test"):
        losses = reduce_dict({"val": model.module(rows).square().mean()})
        logger.update(**losses)
    logger.synchronize_between_processes()
    return logger.meters["val"].total


def main() -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    train = DataLoader(TensorDataset(torch.rand(64, 4)), batch_size=4, shuffle=True)
    held_out = TensorDataset(torch.rand(ROWS, 4))
    test = DataLoader(Subset(held_out, range(rank, ROWS, world)), batch_size=2)
    model = DistributedDataParallel(torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    stopping = EarlyStopping(patience=50)
    for epoch in range(200):
        model.train()
        for step, (rows,) in enumerate(train):
            time.sleep(0.1)
            loss = model(rows).square().mean()
            if torch.isnan(loss):
                continue
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(f"rank {rank} train {step}", flush=True)
        if stopping.should_stop(evaluate(model, test)):
            break
        print(f"rank {rank} ends epoch {epoch}", flush=True)


if __name__ == "__main__":
    main()
