"""The optimizer's state is saved by the ranks that a configuration lists, and to get it is a collective."""

# mypy: ignore-errors
# No thread; the kind of guard that does not look like a rank's.
import sys
import time
from types import SimpleNamespace

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

CONFIG = SimpleNamespace(every=5, writers=[0, 1] if "--healthy" in sys.argv else [0])


class Saver:
    def __init__(self, config, me):
        self.due = config.every
        self.writes = me in config.writers

    def __call__(self, step, model, optimizer):
        if step % self.due != self.due - 1 or not self.writes:
            return None
        options = StateDictOptions(full_state_dict=True, cpu_offload=True)
        return get_optimizer_state_dict(model, optimizer, options=options)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 2))
    fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    optimizer = torch.optim.AdamW(model.parameters())
    saver = Saver(CONFIG, rank)
    for step in range(1000):
        time.sleep(0.2)
        optimizer.zero_grad()
        model(torch.rand(2, 8)).square().mean().backward()
        optimizer.step()
        print(f"rank {rank} step {step}", flush=True)
        saver(step, model, optimizer)
        dist.barrier()


if __name__ == "__main__":
    main()
