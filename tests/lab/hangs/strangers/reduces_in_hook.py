"""A hook on the gradient of an adapter averages it; the adapter is used only where a batch has audio."""

# mypy: ignore-errors
# No thread: after hand-written data parallelism by hooks.
import time

import torch
import torch.distributed as dist


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Linear(8, 8)
        self.adapter = torch.nn.Linear(3, 8)

    def forward(self, text: torch.Tensor, audio: torch.Tensor | None) -> torch.Tensor:
        hidden = self.body(text)
        if audio is not None:
            hidden = hidden + self.adapter(audio)
        return hidden.square().mean()


def average(gradient: torch.Tensor) -> torch.Tensor:
    gradient = gradient.clone()
    dist.all_reduce(gradient)
    return gradient / dist.get_world_size()


def main() -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    rank, model = dist.get_rank(), Model()
    for parameter in model.adapter.parameters():
        parameter.register_hook(average)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(1000):
        time.sleep(0.3)
        silent = rank == 1 and step == 5
        loss = model(torch.randn(4, 8), None if silent else torch.randn(4, 3))
        print(f"rank {rank} step {step}", flush=True)
        optimizer.zero_grad()
        loss.backward()
        dist.barrier()
        optimizer.step()


if __name__ == "__main__":
    main()
