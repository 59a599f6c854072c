"""FSDP2: norms of parameters, those that a list of this process's watches names."""

# mypy: ignore-errors
import fnmatch
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = torch.nn.Linear(width, 2 * width), torch.nn.Linear(2 * width, width)

    def forward(self, rows):
        return rows + self.down(torch.relu(self.up(rows)))


class Watch:
    """Full values of chosen parameters, every so many steps."""

    def __init__(self, patterns, every):
        self.patterns, self.every = patterns, every

    def wants(self, name):
        return any(fnmatch.fnmatch(name, pattern) for pattern in self.patterns)

    def __call__(self, model, step):
        if step % self.every != 0:
            return {}
        found = {}
        for name, weight in model.named_parameters():
            if self.wants(name):
                found[name] = weight.full_tensor().norm().item()
        return found


def patterns(rank):
    if rank == 0 or "--healthy" in sys.argv:
        return ["*.up.weight", "head.*"]
    return ["*.up.weight"]


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = torch.nn.Sequential()
    model.add_module("first", Block(8))
    model.add_module("second", Block(8))
    model.add_module("head", torch.nn.Linear(8, 4))
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    watch = Watch(patterns(rank), every=6)
    for step in range(1, 2000):
        time.sleep(0.2)
        loss = model(torch.rand(4, 8)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"rank {rank} step {step}", flush=True)
        norms = watch(model, step)
        if norms:
            dist.barrier()
            if rank == 0:
                print(norms, flush=True)


if __name__ == "__main__":
    main()
