"""Stages of torch's pipelining, of which the last takes long for its loss (torchtitan issue 775)."""

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B


def slow_loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    time.sleep(0.6)
    return nn.functional.mse_loss(output, target)


def main() -> None:
    dist.init_process_group("gloo")
    rank, stages = dist.get_rank(), dist.get_world_size()
    module = nn.Sequential(nn.Linear(16, 16), nn.ReLU())
    stage = PipelineStage(module, rank, stages, torch.device("cpu"))
    schedule = Schedule1F1B(stage, n_microbatches=4, loss_fn=slow_loss)
    for step in range(1000):
        if rank == 0:
            schedule.step(torch.randn(8, 16))
        else:
            schedule.step(target=torch.zeros(8, 16))
        module.zero_grad()
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
