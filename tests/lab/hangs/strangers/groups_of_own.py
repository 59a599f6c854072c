"""Each process makes only the group that it is in, when it needs it, and remembers it (axolotl 3533)."""

# mypy: ignore-errors
import time

import torch
import torch.distributed as dist


class Router:
    def __init__(self, size: int) -> None:
        self.size, self.groups = size, {}

    def group(self):
        first = dist.get_rank() // self.size * self.size
        ranks = tuple(range(first, first + self.size))
        if ranks not in self.groups:
            self.groups[ranks] = dist.new_group(list(ranks))
        return self.groups[ranks]

    def balance(self, load: torch.Tensor) -> torch.Tensor:
        if float(load.max()) > 2 * float(load.mean()):
            dist.all_reduce(load, group=self.group())
        return load


def main() -> None:
    dist.init_process_group("gloo")
    rank, router = dist.get_rank(), Router(size=2)
    for step in range(1000):
        time.sleep(0.3)
        dist.all_reduce(torch.ones(4))
        print(f"rank {rank} step {step}", flush=True)
        load = torch.ones(4)
        if step == 5 and rank >= 2:
            load[0] = 40.0
        router.balance(load)


if __name__ == "__main__":
    main()
