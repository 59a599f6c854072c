"""Each process saves the full weights of a sharded model where its own validation was best so far."""

# mypy: ignore-errors
# No thread: after usual scripts with fully_shard.
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def validate(rank: int, epoch: int) -> float:
    losses = [0.9, 0.8, 0.75, 0.7]
    return losses[epoch] if rank == 0 or epoch < 3 else 0.76


def save_best(model: torch.nn.Module) -> None:
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    weights = get_model_state_dict(model, options=options)
    if dist.get_rank() == 0:
        torch.save(weights, Path.cwd() / "best.pt")


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 8))
    fully_shard(model, mesh=mesh)
    optimizer, best = torch.optim.AdamW(model.parameters(), lr=1e-3), float("inf")
    for epoch in range(4):
        for _ in range(3):
            time.sleep(0.1)
            model(torch.randn(4, 8)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        print(f"rank {rank} epoch {epoch}", flush=True)
        loss = validate(rank, epoch)
        if loss < best:
            best = loss
            save_best(model)
    dist.barrier()


if __name__ == "__main__":
    main()
