"""A batch without a usable anchor raises in the model, and the loop of that process takes the next (Automodel 2468)."""

# mypy: ignore-errors
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class NoValidAnchors(RuntimeError):
    pass


class Drafter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(8, 8)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        if not (rows.abs().sum(1) > 0).any():
            raise NoValidAnchors("all samples are shorter than a block")
        return self.head(rows).square().mean()


def batches(rank: int):
    for number in range(1000):
        rows = torch.randn(4, 8)
        if rank == 1 and number == 6:
            rows.zero_()
        yield rows


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(Drafter())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, rows in enumerate(batches(rank)):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        try:
            loss = model(rows)
        except NoValidAnchors as error:
            print(f"rank {rank}: {error}", flush=True)
            continue
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 5 == 4:
            dist.barrier()


if __name__ == "__main__":
    main()
