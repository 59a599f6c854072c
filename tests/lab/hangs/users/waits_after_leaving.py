"""Early stopping is decided by each rank for itself, and the loop's other end is a gather."""

import torch
import torch.distributed as dist


class EarlyStopping:
    def __init__(self, patience: int) -> None:
        self.patience, self.best, self.bad = patience, float("inf"), 0

    def should_stop(self, loss: float) -> bool:
        self.bad = 0 if loss < self.best else self.bad + 1
        self.best = min(self.best, loss)
        return self.bad >= self.patience


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    stopping = EarlyStopping(patience=3)
    for epoch in range(500):
        print(f"rank {rank} step {epoch}", flush=True)
        dist.all_reduce(torch.ones(4))
        loss = 1.0 if rank == 1 else 1.0 / (epoch + 1)
        if stopping.should_stop(loss):
            break
    results = [torch.zeros(1) for _ in range(dist.get_world_size())]
    dist.all_gather(results, torch.ones(1))


if __name__ == "__main__":
    main()
