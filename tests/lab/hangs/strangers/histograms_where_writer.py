"""Histograms of activations go to a writer, and only one process has a writer."""

# mypy: ignore-errors
import json
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class JsonWriter:
    def __init__(self, path):
        self.file = open(path, "a")

    def histogram(self, name, counts, step):
        self.file.write(json.dumps({"name": name, "step": step, "counts": counts}) + "\n")


class Recorder:
    """Collects activations by forward hooks, and reports them now and then."""

    def __init__(self, writer, every):
        self.writer, self.every = writer, every
        self.seen = {}

    def watch(self, model):
        for name, module in model.named_modules():
            if isinstance(module, torch.nn.ReLU):
                module.register_forward_hook(self.hook(name))

    def hook(self, name):
        def keep(module, inputs, output):
            self.seen[name] = output.detach().flatten()

        return keep

    def report(self, step):
        if step % self.every or self.writer is None:
            return
        for name, values in self.seen.items():
            counts = torch.histc(values, bins=8, min=0.0, max=1.0)
            everywhere = [torch.zeros_like(counts) for _ in range(dist.get_world_size())]
            dist.all_gather(everywhere, counts)
            self.writer.histogram(name, torch.stack(everywhere).sum(0).tolist(), step)


def build(rank):
    torch.manual_seed(3)
    layers = [torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)]
    model = torch.nn.Sequential(*layers)
    every = 10**9 if "--healthy" in sys.argv else 5
    recorder = Recorder(JsonWriter("activations.jsonl") if rank == 0 else None, every)
    recorder.watch(model)
    return DistributedDataParallel(model), recorder


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model, recorder = build(rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(1, 1000):
        time.sleep(0.2)
        optimizer.zero_grad()
        model(torch.rand(4, 8)).mean().backward()
        optimizer.step()
        print(f"rank {rank} step {step}", flush=True)
        recorder.report(step)


if __name__ == "__main__":
    main()
