"""The whole weights of an FSDP2 model are asked for where they are written only (pytorch issue 148756)."""

import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor


def export(model: nn.Module, path: str) -> None:
    weights = {}
    for name, parameter in model.named_parameters():
        assert isinstance(parameter, DTensor)
        weights[name] = parameter.full_tensor().detach()
    torch.save(weights, path)


def main() -> None:
    dist.init_process_group("gloo")
    local_rank = int(os.environ["LOCAL_RANK"])
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = nn.Sequential(nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 12))
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(2000):
        time.sleep(0.2)
        loss = model(torch.randn(4, 12)).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 5 == 4 and local_rank == 0:
            export(model, f"step{step}.pt")
        dist.all_reduce(mean := loss.detach())
        print(f"rank {local_rank} step {step} loss {mean.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
