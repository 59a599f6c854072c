"""The first process prints the statistics; their text is made of the numbers of all."""

# mypy: ignore-errors
# No thread: after meters that synchronise in __str__.
import time

import torch
import torch.distributed as dist


class Meter:
    def __init__(self, name: str) -> None:
        self.name, self.sum, self.count = name, 0.0, 0

    def update(self, value: float) -> None:
        self.sum += value
        self.count += 1

    @property
    def average(self) -> float:
        numbers = torch.tensor([self.sum, float(self.count)])
        dist.all_reduce(numbers)
        return float(numbers[0] / numbers[1])

    def __str__(self) -> str:
        return f"{self.name}: {self.average:.3f}"


def main() -> None:
    dist.init_process_group("gloo")
    rank, meter = dist.get_rank(), Meter("loss")
    for step in range(1000):
        time.sleep(0.3)
        losses = [torch.zeros(1) for _ in range(dist.get_world_size())]
        dist.all_gather(losses, torch.rand(1))
        meter.update(float(torch.cat(losses).mean()))
        print(f"rank {rank} step {step}", flush=True)
        if step == 5 and rank == 0:
            print(meter, flush=True)


if __name__ == "__main__":
    main()
