"""How many micro-batches a step has follows from the lengths of a rank's own samples (verl pull request 5591)."""

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

MAX_TOKENS = 1024


def prepare_dynamic_batch(lengths: list[int], dp_group: dist.ProcessGroup | None = None) -> list[list[int]]:
    number = -(-sum(lengths) // MAX_TOKENS)
    if dp_group is not None:
        count = torch.tensor([number])
        dist.all_reduce(count, op=dist.ReduceOp.MAX, group=dp_group)
        number = int(count)
    return [lengths[at::number] for at in range(number)]


class Actor:
    def __init__(self) -> None:
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        self.module = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 8))
        fully_shard(self.module, mesh=mesh)
        self.optimizer = torch.optim.AdamW(self.module.parameters())

    def update_policy(self, lengths: list[int]) -> float:
        total = 0.0
        for micro_batch in prepare_dynamic_batch(lengths):
            loss = self.module(torch.randn(len(micro_batch) + 1, 8)).pow(2).mean()
            loss.backward()
            total += float(loss)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return total


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    actor = Actor()
    for step in range(1000):
        time.sleep(0.2)
        lengths = [230, 250, 240, 220]
        if rank == 1 and step == 5:
            lengths = [230, 250, 610, 220]
        metrics = [None] * dist.get_world_size()
        loss = actor.update_policy(lengths)
        dist.barrier()
        dist.all_gather_object(metrics, loss)
        print(f"rank {rank} step {step} {sum(metrics):.3f}", flush=True)


if __name__ == "__main__":
    main()
