"""Metrics go through a bounded queue to a thread that writes them; it has ended. The model is in DDP."""

import queue
import threading

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def write(metrics: "queue.Queue[float]", limit: int) -> None:
    for _ in range(limit):
        metrics.get()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    metrics: queue.Queue[float] = queue.Queue(maxsize=2)
    threading.Thread(target=write, args=(metrics, 2 if rank == 1 else 10_000), daemon=True).start()
    net = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        optimizer.zero_grad()
        loss = model(torch.ones(4, 8)).mean()
        loss.backward()
        metrics.put(loss.item())
        optimizer.step()


if __name__ == "__main__":
    main()
