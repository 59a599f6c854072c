"""torchmetrics gathers by itself when it computes, and only one rank asks it to (torchmetrics issue 938)."""

import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torchmetrics.classification import MulticlassAccuracy


def test(model: nn.Module, metric: MulticlassAccuracy, local_rank: int) -> None:
    metric.reset()
    with torch.inference_mode():
        for _ in range(5):
            images, labels = torch.randn(16, 20), torch.randint(0, 3, (16,))
            metric.update(model(images), labels)
    if local_rank == 0:
        accuracy = metric.compute()
        print(f"accuracy {accuracy:.3f}", flush=True)


def main() -> None:
    dist.init_process_group(backend="gloo")
    local_rank = int(os.environ["LOCAL_RANK"])
    net = DDP(nn.Linear(20, 3), broadcast_buffers=False)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    metric = MulticlassAccuracy(num_classes=3)
    for step in range(200):
        time.sleep(0.2)
        loss = nn.functional.cross_entropy(net(torch.randn(8, 20)), torch.randint(0, 3, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"rank {local_rank} step {step}", flush=True)
        if step % 4 == 3:
            test(net.module, metric, local_rank)


if __name__ == "__main__":
    main()
