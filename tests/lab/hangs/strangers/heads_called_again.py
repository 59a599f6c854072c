"""A head of a ZeRO-3 model is called as often as the answer asks for, on each process (DeepSpeed issue 7998)."""

# mypy: ignore-errors
import time

import deepspeed
import torch
import torch.distributed as dist
from torch import nn


class Detector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Linear(24, 24)
        self.head = nn.Linear(24, 4)

    def forward(self, image: torch.Tensor, objects: int) -> torch.Tensor:
        features = self.trunk(image)
        boxes = self.head(features)
        for _ in range(objects - 1):
            boxes = boxes + self.head(features)
        return boxes


def count_objects(rank: int, step: int) -> int:
    return 3 if rank == 1 and step == 6 else 1


def main() -> None:
    deepspeed.init_distributed("gloo")
    rank = dist.get_rank()
    settings = {
        "train_micro_batch_size_per_gpu": 2,
        "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0, "stage3_max_live_parameters": 1},
    }
    engine, *_ = deepspeed.initialize(model=Detector(), config=settings)
    for step in range(1000):
        time.sleep(0.2)
        with torch.no_grad():
            boxes = engine(torch.randn(2, 24), count_objects(rank, step))
        print(f"rank {rank} step {step}", flush=True)
        dist.broadcast(boxes.mean(), src=0)


if __name__ == "__main__":
    main()
