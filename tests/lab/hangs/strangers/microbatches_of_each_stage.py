"""torch.distributed.pipelining: each stage cuts the batch by a setting of its own."""

# mypy: ignore-errors
import json
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

BATCH = 8


def setting_of(rank):
    path = Path(f"stage{rank}.json")
    size = 1 if rank == 1 and "--healthy" not in sys.argv else 2
    path.write_text(json.dumps({"micro_batch": size, "lr": 0.01}))
    return json.loads(path.read_text())


def loss_of(output, target):
    return (output - target).square().mean()


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    setting = setting_of(rank)
    count = BATCH // setting["micro_batch"]
    part = nn.Linear(4, 4)
    example = torch.randn(BATCH // 4, 4, requires_grad=rank > 0)
    stage = PipelineStage(part, rank, world, torch.device("cpu"), input_args=example, output_args=part(example))
    schedule = ScheduleGPipe(stage, n_microbatches=count, loss_fn=loss_of)
    optimizer = torch.optim.SGD(part.parameters(), lr=setting["lr"])
    for step in range(2000):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        optimizer.zero_grad()
        if rank == 0:
            schedule.step(torch.randn(BATCH, 4))
        else:
            schedule.step(target=torch.randn(BATCH, 4))
        optimizer.step()
        dist.barrier()


if __name__ == "__main__":
    main()
