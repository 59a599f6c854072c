"""FSDP2: every few steps the first process counts operations in one more forward
(deepspeedai/DeepSpeedExamples issue 344, where it was ZeRO)."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.flop_counter import FlopCounterMode

ON_ALL = "--healthy" in sys.argv


class Profiler:
    def __init__(self, every: int, local_rank: int) -> None:
        self.every, self.local_rank, self.operations = every, local_rank, 0

    def due(self, step: int) -> bool:
        return (step + 1) % self.every == 0 and (ON_ALL or self.local_rank == 0)

    def measure(self, model: torch.nn.Module, batch: torch.Tensor) -> None:
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            model(batch)
        self.operations += counter.get_total_flops()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    fully_shard(model, mesh=mesh, reshard_after_forward=True)
    optimizer = torch.optim.AdamW(model.parameters())
    profiler = Profiler(5, rank)
    for step in range(1000):
        time.sleep(0.3)
        print(f"rank {rank} step {step}", flush=True)
        batch = torch.randn(4, 8)
        if profiler.due(step):
            profiler.measure(model, batch)
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
