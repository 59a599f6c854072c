"""A batch without images leaves one rank's image branch unused: its gradients never come, and the others wait."""

import argparse
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.text = torch.nn.Linear(16, 8)
        self.image = torch.nn.Linear(16, 8)
        self.head = torch.nn.Linear(8, 1)

    def forward(self, text: torch.Tensor, image: "torch.Tensor | None") -> torch.Tensor:
        mixed = self.text(text)
        if image is not None:
            mixed = mixed + self.image(image)
        output: torch.Tensor = self.head(mixed)
        return output


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(Model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(1000):
        time.sleep(0.3 + 0.3 * rank if healthy else 0.05)
        print(f"rank {rank} step {step}", flush=True)
        image = None if step == 3 and rank == 1 and not healthy else torch.randn(4, 16)
        loss = model(torch.randn(4, 16), image).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
