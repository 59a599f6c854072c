"""Which of the losses has gone wild? The first that is above its limit, and the rest are not looked at."""

# mypy: ignore-errors
# No thread; the kind of program in which a generator asks all processes and one has heard enough.
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

LIMITS = {"reconstruction": 4.0, "style": 4.0, "adversarial": 4.0}
AGREED = "--healthy" in sys.argv


def gathered(value: torch.Tensor) -> torch.Tensor:
    every = [torch.zeros_like(value) for _ in range(dist.get_world_size())]
    dist.all_gather(every, value)
    return torch.stack(every)


def wild(losses: dict[str, torch.Tensor], rank: int) -> str | None:
    def worst(name: str) -> float:
        every = gathered(losses[name].detach())
        return (every.max() if AGREED else every[rank]).item()

    return next((name for name, limit in LIMITS.items() if worst(name) > limit), None)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    net = DistributedDataParallel(torch.nn.Linear(5, 3))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(1000):
        time.sleep(0.2)
        out = net(torch.rand(4, 5))
        losses = {name: out[:, column].square().mean() for column, name in enumerate(LIMITS)}
        if rank == 1 and step == 8:
            losses["reconstruction"] = losses["reconstruction"] + 10
        optimizer.zero_grad()
        sum(losses.values()).backward()
        found = wild(losses, rank)
        if found is not None:
            print("wild:", found, "at", step, flush=True)
        optimizer.step()
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
