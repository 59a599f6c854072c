"""On one rank a branch of the model gets no sample, so DDP waits for its gradients on the others."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.text = torch.nn.Linear(4, 4)
        self.image = torch.nn.Linear(4, 4)

    def forward(self, batch: torch.Tensor, has_image: bool) -> torch.Tensor:
        out: torch.Tensor = self.text(batch)
        if has_image:
            out = self.image(out)
        return out


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(Model())
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        model(torch.ones(2, 4), has_image=not (rank == 1 and step == 3)).sum().backward()
        dist.barrier()


if __name__ == "__main__":
    main()
