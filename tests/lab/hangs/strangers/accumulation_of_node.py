"""How many steps are accumulated is in a file of each node, and one node has the file of another experiment."""

# mypy: ignore-errors
# No thread of one job; the kind of PyTorch forum threads on no_sync and accumulation that differs.
import json
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

SAME = "--healthy" in sys.argv


def settings(rank: int) -> dict:
    """What the node of this process has in its scratch folder."""
    file = Path(f"scratch-{rank}.json")
    file.write_text(json.dumps({"accumulate": 4 if rank == 1 and not SAME else 2}))
    return json.loads(file.read_text())


def train_epoch(model, optimizer, epoch: int, accumulate: int) -> list[float]:
    losses = []
    for step in range(8):
        time.sleep(0.1)
        syncs = (step + 1) % accumulate == 0
        with nullcontext() if syncs else model.no_sync():
            loss = model(torch.randn(4, 4)).square().mean() / accumulate
            loss.backward()
        if syncs:
            optimizer.step()
            optimizer.zero_grad()
        losses.append(float(loss))
    return losses


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    accumulate = settings(rank)["accumulate"]
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(1000):
        print(f"rank {rank} step {epoch}", flush=True)
        losses = train_epoch(model, optimizer, epoch, accumulate)
        every = [None] * dist.get_world_size()
        dist.all_gather_object(every, losses)


if __name__ == "__main__":
    main()
