"""The moving average of the weights is kept on the first process, of a model that is sharded over all."""

# mypy: ignore-errors
# No thread: after averages of weights that are kept once.
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


class Average:
    def __init__(self, decay: float = 0.99) -> None:
        self.decay, self.shadow = decay, {}

    @torch.no_grad()
    def update(self, model: torch.nn.Module) -> None:
        for name, parameter in model.named_parameters():
            full = parameter.full_tensor()
            old = self.shadow.get(name, full)
            self.shadow[name] = self.decay * old + (1 - self.decay) * full


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 8))
    fully_shard(model, mesh=mesh)
    ema = Average() if rank == 0 else None
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step in range(1000):
        time.sleep(0.2)
        model(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"rank {rank} step {step}", flush=True)
        if ema and step >= 5:
            ema.update(model)


if __name__ == "__main__":
    main()
