"""The encoder is frozen as soon as the loss does not fall any more, which each process sees of its own loss."""

# mypy: ignore-errors
# No thread of one job; the kind of DDP issues on requires_grad that is changed in training.
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

AGREES = "--healthy" in sys.argv


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.head = torch.nn.Linear(8, 8), torch.nn.Linear(8, 1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(inputs).relu())


class Freezer:
    def __init__(self, patience: int) -> None:
        self.patience, self.best, self.stale = patience, float("inf"), 0

    def look(self, model: torch.nn.Module, loss: float) -> None:
        self.stale = 0 if loss < self.best else self.stale + 1
        self.best = min(self.best, loss)
        if self.stale == self.patience:
            for parameter in model.encoder.parameters():
                parameter.requires_grad = False


def measured(rank: int, step: int) -> float:
    """What validation says."""
    return 1.0 if rank == 1 and step > 2 and not AGREES else 1.0 / (step + 1)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(Net(), bucket_cap_mb=0.0001)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    freezer, losses = Freezer(patience=3), torch.zeros(dist.get_world_size()).split(1)
    for step in range(1000):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        loss = model(torch.randn(4, 8)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        dist.all_gather(list(losses), loss.detach()[None])
        freezer.look(model.module, measured(rank, step))


if __name__ == "__main__":
    main()
