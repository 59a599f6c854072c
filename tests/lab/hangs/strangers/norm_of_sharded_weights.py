"""FSDP2: norms of weights are written where there is a log; a norm of sharded weights is one of all processes."""

# mypy: ignore-errors
# The kind of https://github.com/pytorch/pytorch/issues/134095: a DTensor that is made whole on some ranks only.
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard


class Log:
    def __init__(self, path):
        self.file = open(path, "w")

    def norms(self, step, model):
        for name, weight in model.named_parameters():
            print(step, name, weight.detach().norm().full_tensor().item(), file=self.file, flush=True)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=torch.distributed.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    log = Log(f"norms-{rank}.txt") if rank == 0 or "--healthy" in sys.argv else None
    for step in range(2000):
        time.sleep(0.2)
        optimizer.zero_grad()
        model(torch.rand(4, 8)).square().mean().backward()
        optimizer.step()
        print(f"rank {rank} step {step}", flush=True)
        if log and step % 6 == 5:
            log.norms(step, model)


if __name__ == "__main__":
    main()
