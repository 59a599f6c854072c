"""A distributed checkpoint is saved by the first process alone, as a plain one would be."""

# mypy: ignore-errors
# No thread: after usual changes from torch.save to torch.distributed.checkpoint.
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn


class Session:
    def __init__(self) -> None:
        self.rank = dist.get_rank()
        self.master = self.rank == 0
        self.net = nn.Linear(4, 4)

    def keep(self, step: int) -> None:
        dcp.save({"net": self.net.state_dict(), "step": step}, checkpoint_id=f"kept-{step}")

    def run(self) -> None:
        for step in range(1000):
            time.sleep(0.2)
            self.net(torch.randn(2, 4)).sum().backward()
            for parameter in self.net.parameters():
                dist.all_reduce(parameter.grad)
            self.net.zero_grad()
            print(f"rank {self.rank} step {step}", flush=True)
            if self.master and step == 6:
                self.keep(step)


def main() -> None:
    dist.init_process_group("gloo")
    Session().run()


if __name__ == "__main__":
    main()
