"""The first process decides that it is enough and sets a flag that it does not send."""

# mypy: ignore-errors
# No thread of one job; the kind of PyTorch forum threads on early stopping whose flag is not broadcast.
import sys
import time

import torch
import torch.distributed as dist

SENT = "--healthy" in sys.argv


class Watch:
    def __init__(self, patience: int) -> None:
        self.patience, self.worse = patience, 0
        self.enough = torch.zeros(1)

    def look(self, loss: float, rank: int) -> bool:
        if rank == 0:
            self.worse = self.worse + 1 if loss > 0.5 else 0
            if self.worse > self.patience and not SENT:
                self.enough.fill_(1.0)
        return bool(self.enough.item())


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    weights = torch.ones(16)
    for run in range(10):
        watch = Watch(patience=3)
        for step in range(1000):
            time.sleep(0.2)
            loss = 0.6 if rank == 0 else 0.1
            gradient = weights * loss
            dist.all_reduce(gradient)
            print(f"rank {rank} step {step}", flush=True)
            if watch.look(loss, rank):
                break
        dist.barrier()
        print(f"rank {rank} ends run {run}", flush=True)


if __name__ == "__main__":
    main()
