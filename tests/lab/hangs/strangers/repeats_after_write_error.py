"""What may fail is tried again: a function within gathers and then writes."""

# mypy: ignore-errors
import pathlib
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def retry(function, times=3, wait=0.1):
    for attempt in range(times):
        try:
            return function()
        except OSError as error:
            print(f"attempt {attempt}: {error}", flush=True)
            time.sleep(wait)
    return None


class Disk:
    """Where results go; full once, on one machine."""

    def __init__(self, folder, rank):
        self.folder, self.rank = pathlib.Path(folder), rank
        self.folder.mkdir(exist_ok=True)
        self.written = 0

    def write(self, name, text):
        self.written += 1
        if self.rank == 1 and self.written == 2 and "--healthy" not in sys.argv:
            raise OSError(28, "No space left on device")
        (self.folder / f"{name}.{self.rank}.txt").write_text(text)


def evaluate(model, disk, step):
    def once():
        error = model.module(torch.rand(8, 4)).square().mean().detach()
        errors = [torch.zeros(()) for _ in range(dist.get_world_size())]
        dist.all_gather(errors, error)
        disk.write(f"errors-{step}", " ".join(f"{value.item():.4f}" for value in errors))
        return torch.stack(errors).mean().item()

    return retry(once)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    disk = Disk("errors", rank)
    model = DistributedDataParallel(torch.nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(2000):
        time.sleep(0.2)
        optimizer.zero_grad()
        model(torch.rand(4, 4)).sum().backward()
        optimizer.step()
        print(f"rank {rank} step {step}", flush=True)
        if step % 3 == 2:
            evaluate(model, disk, step)
            dist.barrier()


if __name__ == "__main__":
    main()
