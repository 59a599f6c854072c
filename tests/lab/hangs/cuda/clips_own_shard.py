"""Gradients are clipped over an optimizer's shards; a rank whose shard is frozen returns before the sum."""

import argparse
import os
import time

import torch
import torch.distributed as dist


def clip(shard: torch.nn.Module, limit: float) -> float:
    gradients = [parameter.grad for parameter in shard.parameters() if parameter.grad is not None]
    if not gradients:
        return 0.0
    total = torch.stack([gradient.norm() for gradient in gradients]).square().sum()
    dist.all_reduce(total)
    norm = total.sqrt().item()
    for gradient in gradients:
        gradient.mul_(limit / max(norm, limit))
    return norm


def average(model: torch.nn.Module) -> None:
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(flat, op=dist.ReduceOp.AVG)
    torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(dist.get_world_size())]).cuda()
    shard = model[rank]
    optimizer = torch.optim.SGD(shard.parameters(), lr=0.01)
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        if step == 4 and not healthy:
            model[1].requires_grad_(False)
        model(torch.ones(8, 64, device="cuda")).square().mean().backward()
        average(model)
        norm = clip(shard, 1.0)
        optimizer.step()
        model.zero_grad()
        if step % 10 == 0:
            print(f"rank {rank} norm {norm:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
