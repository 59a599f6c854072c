"""A profiler whose handler gathers summaries: it counts steps, and one process has left one out."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile, schedule


class Task:
    def __init__(self):
        self.rank = dist.get_rank()
        self.net = torch.nn.Linear(16, 4)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.05)

    def batch(self, step):
        rows = torch.rand(8, 16)
        if self.rank == 0 and step == 2 and "--healthy" not in sys.argv:
            rows[0, 0] = float("nan")
        return rows

    def sync(self):
        for weight in self.net.parameters():
            weight.grad.nan_to_num_()
            dist.all_reduce(weight.grad)
            weight.grad /= dist.get_world_size()


def gather_summary(profiler):
    """The slowest operators of every process, on the first."""
    rows = [(event.key, event.cpu_time_total) for event in profiler.key_averages()][:3]
    everything = [None] * dist.get_world_size() if dist.get_rank() == 0 else None
    dist.gather_object(rows, everything, dst=0)
    dist.barrier()
    if everything:
        print("operators", len(everything), flush=True)


def main():
    dist.init_process_group("gloo")
    task = Task()
    plan = schedule(wait=3, warmup=1, active=2, repeat=0)
    with profile(activities=[ProfilerActivity.CPU], schedule=plan, on_trace_ready=gather_summary) as profiler:
        for step in range(1000):
            time.sleep(0.25)
            task.optimizer.zero_grad()
            loss = task.net(task.batch(step)).square().mean()
            loss.backward()
            task.sync()
            print(f"rank {task.rank} step {step}", flush=True)
            if not torch.isfinite(loss):
                print("a bad batch is left out", flush=True)
                continue
            torch.nn.utils.clip_grad_norm_(task.net.parameters(), 1.0)
            task.optimizer.step()
            profiler.step()


if __name__ == "__main__":
    main()
