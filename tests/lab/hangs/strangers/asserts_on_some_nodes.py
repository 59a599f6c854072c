"""One node's profile sets PYTHONOPTIMIZE, and there an assertion that asks all processes is no more."""

# mypy: ignore-errors
# No thread; the kind of program whose checks are collectives.
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

PLAIN = "--healthy" in sys.argv


def same_everywhere(model: torch.nn.Module) -> bool:
    """All processes hold the same weights."""
    own = torch.stack([weight.detach().double().sum() for weight in model.parameters()])
    every = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(every, own)
    return all(torch.allclose(own, other) for other in every)


def train(model, optimizer) -> None:
    rank = dist.get_rank()
    for step in range(1000):
        time.sleep(0.2)
        optimizer.zero_grad()
        loss = model(torch.randn(8, 12)).square().mean()
        loss.backward()
        optimizer.step()
        print(f"rank {rank} step {step}", flush=True)
        if step % 5 == 4:
            assert same_everywhere(model), f"weights drift at {step}"


def main() -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(12, 3))
    train(model, torch.optim.SGD(model.parameters(), lr=0.05))


if __name__ == "__main__":
    if os.environ["RANK"] == "1" and not PLAIN and not sys.flags.optimize:
        os.environ["PYTHONOPTIMIZE"] = "1"  # as ~/.bashrc of that node does
        os.execv(sys.executable, [sys.executable, *sys.argv])
    main()
