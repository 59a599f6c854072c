"""Each process makes up the name of the run, and one of them finds a checkpoint under its own."""

# mypy: ignore-errors
# After https://github.com/huggingface/transformers/issues/28270: output directories of processes are not the same.
import pathlib
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.nn.parallel import DistributedDataParallel


def run_name(prefix, clock):
    return f"{prefix}-{int(clock) // 60:04d}"


def last_checkpoint(folder):
    found = sorted(folder.glob("step-*"), key=lambda path: int(path.name.partition("-")[2]))
    return found[-1] if found else None


class Session:
    def __init__(self, root, clock):
        self.rank = dist.get_rank()
        self.folder = pathlib.Path(root) / run_name("resnet", clock)
        self.model = DistributedDataParallel(torch.nn.Linear(6, 6))
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.first = 0

    def state(self):
        return {"model": self.model.module.state_dict(), "first": torch.tensor(self.first)}

    def resume(self):
        where = last_checkpoint(self.folder)
        if where is None:
            return
        state = self.state()
        dcp.load(state, checkpoint_id=where)
        self.first = int(state["first"])

    def train(self, steps):
        for step in range(self.first, self.first + steps):
            time.sleep(0.2)
            self.optimizer.zero_grad()
            self.model(torch.rand(3, 6)).sum().backward()
            self.optimizer.step()
            print(f"rank {self.rank} step {step}", flush=True)
        self.first += steps

    def save(self):
        dcp.save(self.state(), checkpoint_id=self.folder / f"step-{self.first}")


def main():
    dist.init_process_group("gloo")
    healthy = "--healthy" in sys.argv
    first = Session("runs", 3600.0)
    first.train(6)
    first.save()
    late = 0.0 if healthy or dist.get_rank() == 0 else 61.0
    again = Session("runs", 3600.0 + late)
    again.resume()
    again.train(2000)


if __name__ == "__main__":
    main()
