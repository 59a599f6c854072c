"""FSDP2: the whole norm of the gradients is asked for where the part of this process is large."""

# mypy: ignore-errors
# No thread of one job; the kind of miles_diffusion pull request 35 (the norm of DTensors is a partial one).
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

LIMIT = 1e9 if "--healthy" in sys.argv else 50.0


class Monitor:
    def __init__(self, model: nn.Module) -> None:
        self.model, self.spikes = model, []

    def after_backward(self, step: int) -> None:
        norms = torch.stack([parameter.grad.to_local().norm() for parameter in self.model.parameters()])
        if norms.max() < LIMIT:
            return
        whole = torch.nn.utils.get_total_norm([parameter.grad for parameter in self.model.parameters()])
        self.spikes.append((step, whole.full_tensor().item()))


def main() -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 3, bias=False))
    fully_shard(model, mesh=init_device_mesh("cpu", (world,)))
    monitor = Monitor(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    for step in range(1000):
        time.sleep(0.3)
        print(f"rank {rank} step {step}", flush=True)
        out = model(torch.randn(4, 6))
        loss = out.square().mean()
        if step == 5:
            loss = loss + 1e4 * out[:, 2].abs().mean()  # a target that is out of the ordinary, of the last row
        loss.backward()
        monitor.after_backward(step)
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
