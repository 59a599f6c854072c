"""A contrastive loss gathers features with their gradients; without positives in its batch a rank detaches them."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as functional
from torch import nn


class Contrast(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(6, 4)

    def forward(self, rows, positive):
        features = nn.functional.normalize(self.encoder(rows), dim=1)
        shared = torch.cat(functional.all_gather(features))
        if not positive.any():
            shared = shared.detach()
        similar = features @ shared.T
        return -(similar.log_softmax(dim=1).mean(dim=1) * (1 + positive)).mean()


def batch_of(rank, step):
    positive = torch.tensor([0.0, 1.0, 0.0, 1.0])
    if (rank, step) == (1, 6) and "--healthy" not in sys.argv:
        positive = torch.zeros(4)
    return torch.randn(4, 6), positive


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = Contrast()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(2000):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        loss = model(*batch_of(rank, step))
        optimizer.zero_grad()
        loss.backward()
        for weight in model.parameters():
            dist.all_reduce(weight.grad)
        optimizer.step()


if __name__ == "__main__":
    main()
