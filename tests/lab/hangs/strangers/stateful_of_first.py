"""DCP: what is saved besides the model is a Stateful of the first process, which asks the others for their parts."""

# mypy: ignore-errors
# The kind of torch issues on distributed checkpoints whose state dict is not alike on all ranks (152310).
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.nn.parallel import DistributedDataParallel

ON_ALL = "--healthy" in sys.argv


class Progress:
    """Where each process stands in its files."""

    def __init__(self) -> None:
        self.offset = 0

    def advance(self, rows: int) -> None:
        self.offset += rows

    def state_dict(self) -> dict:
        offsets = [None] * dist.get_world_size()
        dist.all_gather_object(offsets, self.offset)
        return {"offsets": torch.tensor(offsets)}

    def load_state_dict(self, state: dict) -> None:
        self.offset = int(state["offsets"][dist.get_rank()])


class Training:
    def __init__(self) -> None:
        self.rank = dist.get_rank()
        self.model = DistributedDataParallel(torch.nn.Linear(8, 8))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.progress = Progress()

    def parts(self) -> dict:
        found = {"model": self.model.module}
        if self.rank == 0 or ON_ALL:
            found = {"progress": self.progress, **found}
        return found

    def run(self) -> None:
        for step in range(1000):
            time.sleep(0.2)
            self.optimizer.zero_grad()
            self.model(torch.rand(4, 8)).square().mean().backward()
            self.optimizer.step()
            self.progress.advance(4)
            print(f"rank {self.rank} step {step}", flush=True)
            if step % 5 == 4:
                dcp.save(self.parts(), checkpoint_id=f"step-{step}")


if __name__ == "__main__":
    dist.init_process_group("gloo")
    Training().run()
