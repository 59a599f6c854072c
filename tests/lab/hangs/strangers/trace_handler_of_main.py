"""The first process is profiled; what handles its trace waits for all, to name the files alike."""

# mypy: ignore-errors
# No thread: after usual handlers of torch.profiler.
import contextlib
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile, schedule


def on_trace(profiler) -> None:
    names = [None] * dist.get_world_size()
    dist.all_gather_object(names, f"trace-{dist.get_rank()}.json")
    profiler.export_chrome_trace(str(Path.cwd() / names[dist.get_rank()]))


def main() -> None:
    dist.init_process_group("gloo")
    rank, model = dist.get_rank(), torch.nn.Linear(8, 8)
    plan = schedule(wait=2, warmup=1, active=2, repeat=1)
    traced = (
        profile(activities=[ProfilerActivity.CPU], schedule=plan, on_trace_ready=on_trace)
        if rank == 0
        else contextlib.nullcontext()
    )
    with traced as profiler:
        for step in range(1000):
            time.sleep(0.2)
            loss = model(torch.randn(2, 8)).sum()
            dist.all_reduce(loss.detach())
            print(f"rank {rank} step {step}", flush=True)
            if profiler is not None:
                profiler.step()


if __name__ == "__main__":
    main()
