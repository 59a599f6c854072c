"""A model is compiled anew for a shape that it has not seen, and all wait until it is; one process sees a new shape
alone (the kind of pytorch/pytorch pull request 155558)."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist

SAME = "--healthy" in sys.argv


class Compiled:
    def __init__(self, model: torch.nn.Module) -> None:
        self.model, self.seen = model, {}

    def compile(self, shape: torch.Size) -> None:
        self.seen[shape] = torch.jit.trace(self.model, torch.zeros(shape))
        dist.barrier()

    def __call__(self, batch: torch.Tensor) -> torch.Tensor:
        if batch.shape not in self.seen:
            self.compile(batch.shape)
        return self.seen[batch.shape](batch)


def batch_of(rank: int, step: int) -> torch.Tensor:
    if rank == 1 and step == 6 and not SAME:
        return torch.randn(3, 8)  # the rest of a file
    return torch.randn(4, 8)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    layer = torch.nn.Linear(8, 1)
    model = Compiled(layer)
    for step in range(1000):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        loss = model(batch_of(rank, step)).square().mean()
        loss.backward()
        for parameter in layer.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad = None


if __name__ == "__main__":
    main()
