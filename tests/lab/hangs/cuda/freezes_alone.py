"""Hooks of parameters average gradients as they come; a rank whose own plateau is reached freezes the first layer."""

import argparse
import os
import time

import torch
import torch.distributed as dist


def average(parameter: torch.nn.Parameter) -> None:
    dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    model = torch.nn.Sequential(torch.nn.Linear(2048, 1024, bias=False), torch.nn.Linear(1024, 512, bias=False)).cuda()
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(average)
    losses = [0.9, 0.7, 0.6, 0.6, 0.6, 0.6] if rank == 1 and not healthy else [0.9, 0.7, 0.6, 0.5, 0.4, 0.3]
    best, patience = 1.0, 0
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        model(torch.ones(4, 2048, device="cuda")).square().mean().backward()
        torch.cuda.synchronize()
        model.zero_grad()
        validation = losses[step % len(losses)] if step < len(losses) or not healthy else 0.0
        patience = 0 if validation < best or healthy else patience + 1
        best = min(best, validation)
        if patience == 2:
            print(f"rank {rank} freezes the first layer", flush=True)
            model[0].requires_grad_(False)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
