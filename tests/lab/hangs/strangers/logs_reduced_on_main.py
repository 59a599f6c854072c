"""The line that is logged on the main process is put together by a function that reduces the losses over all."""

# mypy: ignore-errors
# The kind of issues on reduce_dict under is_main_process. No thread of one job.
import math
import sys
import time

import torch
import torch.distributed as dist
from references_kit import is_main_process, reduce_dict
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

FIRST = "--healthy" in sys.argv


class Progress:
    """Calls what describes a step only when it is the turn of one."""

    def __init__(self, every: int) -> None:
        self.every = every

    def show(self, step: int, describe) -> None:
        if step % self.every or not is_main_process():
            return
        print(f"step {step}: {describe()}", flush=True)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    data = TensorDataset(torch.rand(4000, 4))
    sampler = DistributedSampler(data, seed=3)
    loader = DataLoader(data, batch_size=8, sampler=sampler, drop_last=True)
    model = DistributedDataParallel(torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    progress = Progress(every=4)
    for epoch in range(100):
        sampler.set_epoch(epoch)
        for step, (rows,) in enumerate(loader, start=1):
            time.sleep(0.2)
            dist.barrier()  # so that the times of all begin alike
            output = model(rows)
            losses = {"classes": output.square().mean(), "boxes": output.abs().mean()}
            total = sum(losses.values())
            if not math.isfinite(total.item()):
                print(f"loss is {total.item()}, left out", flush=True)
                continue
            optimizer.zero_grad()
            total.backward()
            optimizer.step()
            kept = {name: value.detach() for name, value in losses.items()}
            if FIRST:
                kept = reduce_dict(kept)
            print(f"rank {rank} step {step}", flush=True)
            progress.show(step, lambda kept=kept: kept if FIRST else reduce_dict(kept))


if __name__ == "__main__":
    main()
