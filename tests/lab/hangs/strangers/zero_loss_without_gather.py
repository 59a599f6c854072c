"""A contrastive loss over the samples of all: its gather has a backward of its own, and a process without positives
gives a zero in place of the loss."""

# mypy: ignore-errors
# No thread of one job; the kind of SimCLR and CLIP issues on GatherLayer and batches without positives.
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

ALWAYS_POSITIVE = "--healthy" in sys.argv


class GatherLayer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part):
        parts = [torch.zeros_like(part) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, part)
        return tuple(parts)

    @staticmethod
    def backward(ctx, *gradients):
        for owner, gradient in enumerate(gradients):
            dist.reduce(gradient, owner)
        return gradients[dist.get_rank()]


def contrastive(features: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    everybody = torch.cat(GatherLayer.apply(features))
    pairs = labels[:, None] == labels[None, :]
    pairs.fill_diagonal_(False)
    if not pairs.any():
        return torch.zeros((), requires_grad=True)
    alike = F.normalize(features, dim=1) @ F.normalize(everybody, dim=1).T
    positive = (features @ features.T)[pairs].mean()
    return alike.logsumexp(1).mean() - positive


def labels_of(rank: int, step: int) -> torch.Tensor:
    if rank == 1 and step == 6 and not ALWAYS_POSITIVE:
        return torch.arange(6)
    return torch.arange(6) % 3


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    encoder = nn.Linear(12, 5)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=1e-3)
    for step in range(1000):
        time.sleep(0.3)
        print(f"rank {rank} step {step}", flush=True)
        optimizer.zero_grad(set_to_none=False)
        loss = contrastive(encoder(torch.randn(6, 12)), labels_of(rank, step))
        loss.backward()
        for parameter in encoder.parameters():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            dist.all_reduce(parameter.grad)
        optimizer.step()


if __name__ == "__main__":
    main()
