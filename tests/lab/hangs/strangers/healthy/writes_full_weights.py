"""All gather the full weights of a sharded model; the first process writes them to a slow disk."""

# mypy: ignore-errors
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def save(model: torch.nn.Module, step: int) -> None:
    weights = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if dist.get_rank() == 0:
        with (Path.cwd() / "full.bin").open("wb") as file:
            for _ in range(12):
                file.write(bytes(65536))
                os.fsync(file.fileno())
                time.sleep(0.25)
        torch.save(weights, Path.cwd() / "full.pt")


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 8))
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step in range(1000):
        time.sleep(0.2)
        model(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"rank {rank} step {step}", flush=True)
        if step % 3 == 2:
            save(model, step)


if __name__ == "__main__":
    main()
