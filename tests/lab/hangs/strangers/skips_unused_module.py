"""The first frame of a video skips the second module, whose norm asks all other processes (pytorch issue 44957)."""

# mypy: ignore-errors
import time

import torch
import torch.distributed as dist
from torch import nn


class NaiveSyncBatchNorm(nn.BatchNorm1d):
    """The mean over all processes, on CPUs too."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mine = x.detach().mean(0)
        means = [torch.zeros_like(mine) for _ in range(dist.get_world_size())]
        dist.all_gather(means, mine)
        return x - torch.stack(means).mean(0)


class Video(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(8, 8)
        self.memory = nn.Sequential(nn.Linear(8, 8), NaiveSyncBatchNorm(8))
        self.iter = 0

    def begin(self) -> None:
        self.iter = 0

    def forward(self, frame: torch.Tensor) -> torch.Tensor:
        stuff = self.encoder(frame)
        self.iter += 1
        if self.iter == 1:
            return stuff
        return stuff + self.memory(stuff)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    frames_of_clip = [9, 9, 6][rank]
    model, step = Video(), 0
    while True:
        model.begin()
        for _ in range(frames_of_clip):
            time.sleep(0.2)
            loss = model(torch.randn(4, 8)).square().mean()
            loss.backward()
            for parameter in model.encoder.parameters():
                dist.all_reduce(parameter.grad)
            print(f"rank {rank} step {step}", flush=True)
            step += 1


if __name__ == "__main__":
    main()
