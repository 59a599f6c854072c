"""torchmetrics: a metric that is set to synchronize at each forward, called where the batch has a mask."""

# mypy: ignore-errors
# The kind of torchmetrics issues on dist_sync_on_step (626, 813: DDP that stands in a metric).
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torchmetrics.classification import BinaryJaccardIndex

ALWAYS = "--healthy" in sys.argv


class Segments:
    def __init__(self, rank: int) -> None:
        self.rank = rank

    def __iter__(self):
        for number in range(2000):
            image = torch.randn(4, 9)
            mask = torch.zeros(4, dtype=torch.long)
            if not (self.rank == 1 and number == 9):
                mask[number % 4] = 1
            yield image, mask


def evaluate(net, rank: int, metric, every: int = 5):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02)
    overlaps = []
    for step, (image, mask) in enumerate(Segments(rank)):
        time.sleep(0.15)
        logits = net(image).squeeze(1)
        optimizer.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(logits, mask.float()).backward()
        optimizer.step()
        if step % every == every - 1:
            score = metric(logits.detach(), mask) if mask.any() or ALWAYS else None
            if score is not None:
                overlaps.append(score.item())
        print(f"rank {rank} step {step}", flush=True)
    return overlaps


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    net = DistributedDataParallel(torch.nn.Linear(9, 1))
    print(evaluate(net, rank, BinaryJaccardIndex(dist_sync_on_step=True)))


if __name__ == "__main__":
    main()
