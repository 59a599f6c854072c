"""Whether to stop is asked over gloo every few steps, as often as each node's configuration says."""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def all_stop(own: bool, group: dist.ProcessGroup) -> bool:
    flag = torch.tensor([int(own)])
    dist.all_reduce(flag, op=dist.ReduceOp.MAX, group=group)
    return bool(flag.item())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    beside = dist.new_group(backend="gloo")
    ask_every = 6 if healthy or rank != 1 else 4
    model = DistributedDataParallel(torch.nn.Linear(32, 4).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(1, 1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        loss = model(torch.ones(8, 32, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"rank {rank} loss {loss.item():.3f}", flush=True)
        if step % ask_every == 0 and all_stop(False, beside):
            break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
