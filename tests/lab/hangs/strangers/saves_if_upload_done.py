"""dcp.save, and each process's part is uploaded behind; a save is left out where the last upload still goes on."""

# mypy: ignore-errors
# After https://github.com/pytorch/torchtitan/issues/930: saves that overlap, and what is done about them.
import concurrent.futures
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.nn.parallel import DistributedDataParallel


def upload(folder, seconds):
    time.sleep(seconds)
    return folder


class Saver:
    def __init__(self, model, rank):
        self.model, self.rank, self.last = model, rank, None
        self.executor = concurrent.futures.ThreadPoolExecutor(1)

    def seconds(self, step):
        return 30.0 if self.rank == 1 and step == 4 and "--healthy" not in sys.argv else 0.05

    def maybe_save(self, step):
        if self.last is not None and not self.last.done():
            return
        dcp.save({"model": self.model.state_dict()}, checkpoint_id=f"step-{step}")
        self.last = self.executor.submit(upload, f"step-{step}", self.seconds(step))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    saver = Saver(model.module, rank)
    for step in range(1000):
        time.sleep(0.3)
        optimizer.zero_grad()
        model(torch.rand(2, 4)).sum().backward()
        optimizer.step()
        print(f"rank {rank} step {step}", flush=True)
        if step % 4 == 0:
            saver.maybe_save(step)


if __name__ == "__main__":
    main()
