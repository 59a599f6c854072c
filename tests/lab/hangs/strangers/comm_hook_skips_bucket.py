"""DDP: a hook of the gradients saves the traffic of buckets in which nothing is."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def sparing(group, bucket):
    gradients = bucket.buffer()
    if not gradients.any():
        done = torch.futures.Future()
        done.set_result(gradients)
        return done
    gradients.div_(dist.get_world_size())
    return dist.all_reduce(gradients, group=group, async_op=True).get_future().then(lambda done: done.value()[0])


def loss_of(model, rank, step):
    value = model(torch.rand(4, 6)).mean()
    nothing = rank == 1 and step == 6 and "--healthy" not in sys.argv
    return value * (0.0 if nothing else 1.0)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(6, 3))
    model.register_comm_hook(dist.group.WORLD, sparing)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(2000):
        time.sleep(0.2)
        optimizer.zero_grad()
        print(f"rank {rank} step {step}", flush=True)
        loss_of(model, rank, step).backward()
        optimizer.step()
        if step % 10 == 9:
            dist.barrier()


if __name__ == "__main__":
    main()
