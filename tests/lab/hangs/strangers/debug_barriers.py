"""Barriers that were left in after debugging stand around each micro-batch, of which there are not equally many
(Neuron_SP issue 73)."""

# mypy: ignore-errors
import time

import torch
import torch.distributed as dist

PROFILE = {0: 4.0}
"""Seconds of a step, where they are not one."""


class HeteroPlan:
    """How many micro-batches a device gets follows from how fast it was."""

    def __init__(self, rank: int, world: int) -> None:
        self.rank, self.world = rank, world
        self.seconds = torch.ones(world)

    def observe(self, seconds: float) -> None:
        parts = [torch.zeros(1) for _ in range(self.world)]
        dist.all_gather(parts, torch.tensor([seconds]))
        self.seconds = torch.cat(parts)

    def micro_batches(self, total: int) -> int:
        speed = 1 / self.seconds
        return max(1, int(total * speed[self.rank] / speed.sum()))


class Engine:
    def __init__(self, plan: HeteroPlan) -> None:
        self.plan, self.rank = plan, plan.rank
        self.grad = torch.zeros(32)

    def forward_backward(self, batch: torch.Tensor) -> None:
        dist.barrier()
        self.grad += batch.mean(0)
        dist.barrier()

    def train_batch(self, step: int, data) -> None:
        for _micro in range(self.plan.micro_batches(total=6)):
            self.forward_backward(next(data))
        dist.all_reduce(self.grad)
        print(f"rank {self.rank} step {step}", flush=True)
        if step == 3:
            self.plan.observe(PROFILE.get(self.rank, 1.0))


def tokens():
    while True:
        time.sleep(0.05)
        yield torch.randn(2, 32)


def main() -> None:
    dist.init_process_group("gloo")
    engine = Engine(HeteroPlan(dist.get_rank(), dist.get_world_size()))
    data = tokens()
    for step in range(1000):
        engine.train_batch(step, data)


if __name__ == "__main__":
    main()
