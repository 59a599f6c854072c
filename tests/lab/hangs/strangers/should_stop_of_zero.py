"""A remote control talks to the first process alone: all meet at a barrier, and only one has been told to stop."""

# mypy: ignore-errors
# After talmolab/sleap-nn pull 471 (a barrier does not carry should_stop), written anew.
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

TOLD_TO_ALL = "--healthy" in sys.argv


class RemoteControl:
    """Stands for the ZMQ socket on which the stop button of the GUI is heard."""

    def poll(self, step):
        return "stop" if step == 5 and not TOLD_TO_ALL else None


class Trainer:
    def __init__(self, model):
        self.model = model
        self.rank = dist.get_rank()
        self.is_global_zero = self.rank == 0
        self.should_stop = False
        self.control = RemoteControl()
        self.optimizer = torch.optim.Adam(model.parameters())

    def on_train_batch_end(self, step):
        if self.is_global_zero and self.control.poll(step) == "stop":
            self.should_stop = True
        dist.barrier()

    def fit(self):
        step = 0
        while not self.should_stop and step < 2000:
            time.sleep(0.2)
            self.optimizer.zero_grad()
            self.model(torch.rand(4, 6)).mean().backward()
            self.optimizer.step()
            print(f"rank {self.rank} step {step}", flush=True)
            self.on_train_batch_end(step)
            step += 1
        self.save()

    def save(self):
        dist.all_gather_object([None] * dist.get_world_size(), torch.get_rng_state())


if __name__ == "__main__":
    dist.init_process_group("gloo")
    Trainer(DistributedDataParallel(torch.nn.Linear(6, 2))).fit()
