"""Those that hold experts make a mesh of themselves when they begin to; the others go on without."""

# mypy: ignore-errors
# No thread of one job; the kind of pytorch issues on init_device_mesh and new_group that not all ranks call.
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

EXPERTS = [0, 1] if "--healthy" not in sys.argv else [0, 1, 2, 3]


class Router:
    def __init__(self, experts: list[int]) -> None:
        self.experts, self.mesh = experts, None

    def begin(self) -> None:
        if dist.get_rank() in self.experts:
            self.mesh = DeviceMesh("cpu", self.experts)

    def balance(self, load) -> None:
        if self.mesh is not None:
            dist.all_reduce(load, group=self.mesh.get_group())


def main() -> None:
    dist.init_process_group("gloo")
    rank, router = dist.get_rank(), Router(EXPERTS)
    for step in range(1000):
        time.sleep(0.3)
        print(f"rank {rank} step {step}", flush=True)
        gradient = torch.randn(3)
        dist.all_reduce(gradient)
        if step == 4:
            router.begin()
        router.balance(torch.ones(2))


if __name__ == "__main__":
    main()
