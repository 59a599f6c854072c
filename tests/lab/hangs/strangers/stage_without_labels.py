"""The last stage of a pipeline leaves out a step that has no labels, and the first does not (torchtitan issue 775)."""

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe


def labels_of(step: int) -> torch.Tensor | None:
    return None if step == 5 else torch.zeros(8, 16)


def main() -> None:
    dist.init_process_group("gloo")
    rank, stages = dist.get_rank(), dist.get_world_size()
    module = nn.Sequential(nn.Linear(16, 16), nn.ReLU())
    stage = PipelineStage(module, rank, stages, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=nn.functional.mse_loss)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for step in range(1000):
        time.sleep(0.2)
        if rank == 0:
            schedule.step(torch.randn(8, 16))
        elif rank == stages - 1:
            labels = labels_of(step)
            if labels is None:
                continue
            schedule.step(target=labels)
        else:
            schedule.step()
        optimizer.step()
        optimizer.zero_grad()
        print(f"rank {rank} step {step}", flush=True)
        if step % 3 == 2:
            dist.barrier()


if __name__ == "__main__":
    main()
