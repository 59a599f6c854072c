"""A detector; the head for boxes is used where a batch has some, and one rank meets a batch that has none."""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Detector(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.backbone = torch.nn.Linear(64, 64)
        self.classes = torch.nn.Linear(64, 8)
        self.boxes = torch.nn.Linear(64, 4)

    def forward(self, images: torch.Tensor, boxes: torch.Tensor | None) -> torch.Tensor:
        features = self.backbone(images)
        loss = self.classes(features).square().mean()
        if boxes is not None:
            loss = loss + (self.boxes(features) - boxes).abs().mean()
        return loss


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    model = DistributedDataParallel(Detector().cuda(), find_unused_parameters=False, bucket_cap_mb=0.001)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        boxes = torch.ones(4, 4, device="cuda")
        if step == 3 and rank == 1 and not healthy:
            boxes = None
        loss = model(torch.ones(4, 64, device="cuda"), boxes)
        loss.backward()
        average = loss.detach().clone()
        dist.all_reduce(average)
        print(f"rank {rank} loss {average.item():.3f}", flush=True)
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
