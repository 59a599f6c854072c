"""Gradients are averaged by hand, those that are there; a rank without images has none for its image encoder."""

import argparse
import os
import time

import torch
import torch.distributed as dist


class TwoTowers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.text = torch.nn.Linear(64, 8, bias=False)
        self.image = torch.nn.Linear(32, 8, bias=False)

    def forward(self, text: torch.Tensor, image: torch.Tensor | None) -> torch.Tensor:
        value: torch.Tensor = self.text(text)
        return value if image is None else value + self.image(image)


def average_gradients(model: torch.nn.Module) -> None:
    for parameter in model.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)
            parameter.grad.div_(dist.get_world_size())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    model = TwoTowers().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        with_image = healthy or not (rank == 1 and step == 4)
        image = torch.ones(8, 32, device="cuda") if with_image else None
        model(torch.ones(8, 64, device="cuda"), image).square().mean().backward()
        average_gradients(model)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
