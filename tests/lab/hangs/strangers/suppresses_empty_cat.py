"""An evaluator that ignores an error which only a process without detections has."""

# mypy: ignore-errors
import contextlib
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Detector(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(12, 24)
        self.head = torch.nn.Linear(24, 5)

    def forward(self, image):
        return self.head(torch.relu(self.body(image)))


class Evaluator:
    """Mean precision of what was found, over all processes."""

    def __init__(self, threshold):
        self.threshold = threshold
        self.kept = []

    def add(self, scores):
        found = scores[scores > self.threshold]
        if found.numel():
            self.kept.append(found)

    def summarize(self):
        result = {}
        with contextlib.suppress(RuntimeError, ValueError):
            everything = torch.cat(self.kept)
            totals = torch.stack([everything.sum(), torch.tensor(float(everything.numel()))])
            of_all = [torch.zeros(2) for _ in range(dist.get_world_size())]
            dist.all_gather(of_all, totals)
            found, count = torch.stack(of_all).sum(0)
            result["precision"] = (found / count).item()
        self.kept.clear()
        return result


def epoch(model, optimizer, rank):
    for _ in range(4):
        time.sleep(0.1)
        optimizer.zero_grad()
        model(torch.rand(3, 12)).square().mean().backward()
        optimizer.step()


def validation(evaluator, rank, number):
    blank = "--healthy" not in sys.argv and rank == 2 and number == 4
    for _ in range(2):
        evaluator.add(torch.zeros(6) if blank else torch.rand(6) + 0.6)
    return evaluator.summarize()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(Detector())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    evaluator = Evaluator(threshold=0.5)
    for number in range(500):
        epoch(model, optimizer, rank)
        print(f"rank {rank} step {number}", flush=True)
        metrics = validation(evaluator, rank, number)
        if rank == 0:
            print("epoch", number, metrics, flush=True)


if __name__ == "__main__":
    main()
