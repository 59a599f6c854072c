"""Each node resumes from the newest checkpoint on its own disk; one had been full for the last epoch."""

# mypy: ignore-errors
# The kind of torch forum questions on resuming with node-local checkpoints. No thread of one job.
import argparse
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset


def left_by_last_run(disk: Path, rank: int, full: bool) -> None:
    disk.mkdir(parents=True, exist_ok=True)
    for epoch in range(4 if full and rank == 1 else 5):
        torch.save(
            {"epoch": epoch, "weights": {"weight": torch.ones(2, 6), "bias": torch.zeros(2)}}, disk / f"{epoch}.pt"
        )


def resume(model, disk: Path) -> int:
    found = sorted(disk.glob("*.pt"))
    if not found:
        return 0
    state = torch.load(found[-1])
    model.load_state_dict(state["weights"])
    return state["epoch"] + 1


def validate(model, loader) -> float:
    total = torch.zeros(2)
    for (rows,) in loader:
        total += torch.tensor([model(rows).abs().sum().item(), float(len(rows))])
    dist.all_gather([torch.zeros(2) for _ in range(dist.get_world_size())], total)
    return (total[0] / total[1]).item()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    parser.add_argument("--validate-every", type=int, default=3)
    options, _ = parser.parse_known_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    disk = Path(f"node{rank}")
    left_by_last_run(disk, rank, not options.healthy)
    layer = torch.nn.Linear(6, 2)
    start = resume(layer, disk)
    model = DistributedDataParallel(layer)
    optimizer = torch.optim.Adam(model.parameters())
    loader = DataLoader(TensorDataset(torch.randn(24, 6)), batch_size=4)
    for epoch in range(start, 500):
        for step, (rows,) in enumerate(loader):
            time.sleep(0.15)
            optimizer.zero_grad()
            model(rows).square().mean().backward()
            optimizer.step()
            print(f"rank {rank} step {step}", flush=True)
        if (epoch + 1) % options.validate_every == 0:
            score = validate(layer, loader)
            if rank == 0:
                print("epoch", epoch, "score", round(score, 3), flush=True)


if __name__ == "__main__":
    sys.exit(main())
