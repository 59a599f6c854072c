"""Pictures are drawn by one process, which sets the model to evaluation and not back; a layer brings its mean together
in training alone."""

# mypy: ignore-errors
# No thread of one job; the kind of forum posts on synchronized batch norm and model.eval() on one rank.
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

SETS_BACK = "--healthy" in sys.argv


class SharedNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        mean = self.mean
        if self.training:
            means = [torch.empty_like(mean) for _ in range(dist.get_world_size())]
            dist.all_gather(means, hidden.detach().mean(0))
            mean = torch.stack(means).mean(0)
            self.mean.lerp_(mean, 0.1)
        return (hidden - mean) * self.scale


class Studio:
    def __init__(self, model: nn.Module) -> None:
        self.model, self.pictures = model, []

    @torch.no_grad()
    def draw(self) -> None:
        self.model.eval()
        self.pictures.append(self.model(torch.randn(1, 8)))
        if SETS_BACK:
            self.model.train()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = nn.Sequential(nn.Linear(8, 16), SharedNorm(16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    studio = Studio(model)
    for step in range(1000):
        time.sleep(0.3)
        print(f"rank {rank} step {step}", flush=True)
        loss = model(torch.randn(6, 8)).square().mean()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        optimizer.zero_grad()
        if step % 4 == 3 and rank == 1:
            studio.draw()


if __name__ == "__main__":
    main()
