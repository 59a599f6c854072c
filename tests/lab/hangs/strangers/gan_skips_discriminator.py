"""The discriminator is not trained where it is too good already, which each process finds for itself."""

# mypy: ignore-errors
# No thread: after a usual guard in training loops of adversarial networks.
import time

import torch
import torch.distributed as dist
from torch import nn


def average_gradients(net: nn.Module) -> None:
    for parameter in net.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


class Gan:
    def __init__(self) -> None:
        torch.manual_seed(0)
        self.generator, self.discriminator = nn.Linear(6, 6, bias=False), nn.Linear(6, 6, bias=False)
        self.optimizers = [torch.optim.SGD(net.parameters(), lr=0.01) for net in (self.generator, self.discriminator)]

    def train_discriminator(self, accuracy: float, threshold: float = 0.9) -> None:
        self.optimizers[1].zero_grad()
        self.discriminator(torch.randn(4, 6)).square().mean().backward()
        if accuracy < threshold:
            average_gradients(self.discriminator)
            self.optimizers[1].step()

    def train_generator(self) -> None:
        self.optimizers[0].zero_grad()
        self.discriminator(self.generator(torch.randn(4, 6))).mean().backward()
        average_gradients(self.generator)
        self.optimizers[0].step()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    gan = Gan()
    for step in range(1000):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        gan.train_discriminator(0.95 if rank == 2 and step == 5 else 0.7)
        gan.train_generator()
        if step % 4 == 3:
            scores = [torch.zeros(1) for _ in range(dist.get_world_size())]
            dist.all_gather(scores, torch.tensor([0.5]))


if __name__ == "__main__":
    main()
