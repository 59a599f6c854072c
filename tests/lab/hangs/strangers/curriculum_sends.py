"""A curriculum as a generator: it is sent the loss and gives the phase."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def curriculum(easy, patience):
    """Phases, by what has been sent."""
    phase, good = "warmup", 0
    while True:
        loss = yield phase
        good = good + 1 if loss < easy else 0
        if phase == "warmup" and good >= patience:
            phase = "contrast"


def gathered(features):
    every = [torch.zeros_like(features) for _ in range(dist.get_world_size())]
    dist.all_gather(every, features)
    return torch.cat(every)


def objective(phase, features):
    if phase == "contrast":
        return -(features @ gathered(features.detach()).T).logsumexp(1).mean()
    return features.square().mean()


def measured(rank, step):
    if rank == 1 and "--healthy" not in sys.argv:
        return 1.0
    return 2.0 / (step + 1)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(6, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    phases = curriculum(easy=0.6, patience=3)
    phase = next(phases)
    for step in range(2000):
        time.sleep(0.2)
        optimizer.zero_grad()
        objective(phase, model(torch.rand(4, 6))).backward()
        optimizer.step()
        print(f"rank {rank} step {step} {phase}", flush=True)
        phase = phases.send(measured(rank, step))


if __name__ == "__main__":
    main()
