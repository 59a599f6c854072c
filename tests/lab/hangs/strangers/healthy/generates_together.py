"""A sharded model generates; who is done goes on with dummy passes until all are (synced_gpus)."""

import random
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def generate(model: nn.Module, limit: int) -> int:
    done, length = False, 0
    ends_at = random.randint(2, limit)
    while True:
        going = torch.tensor([0.0 if done else 1.0])
        dist.all_reduce(going)
        if not going.item():
            return length
        time.sleep(0.1 if done else 0.6)
        with torch.no_grad():
            model(torch.randn(1, 16))
        if not done:
            length += 1
            done = length >= ends_at


def main() -> None:
    dist.init_process_group("gloo")
    random.seed(dist.get_rank())
    model = nn.Sequential(nn.Linear(16, 32), nn.Linear(32, 16))
    fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    for step in range(1000):
        print(f"rank {dist.get_rank()} step {step} {generate(model, 12)}", flush=True)


if __name__ == "__main__":
    main()
