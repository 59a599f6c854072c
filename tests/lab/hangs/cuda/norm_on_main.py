"""FSDP2; the process that writes the log asks for the whole norm of the gradients, which is gathered from all."""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard


def norm_of(model: torch.nn.Module) -> float:
    total = torch.zeros((), device="cuda")
    for parameter in model.parameters():
        total += parameter.grad.full_tensor().square().sum()
    return total.sqrt().item()


def report(model: torch.nn.Module, step: int, loss: torch.Tensor) -> None:
    print(f"step {step}: loss {loss.item():.3f}, norm of gradients {norm_of(model):.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    model = torch.nn.Sequential(torch.nn.Linear(48, 96), torch.nn.GELU(), torch.nn.Linear(96, 12)).cuda()
    for layer in (model[0], model[2], model):
        fully_shard(layer)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        loss = model(torch.ones(6, 48, device="cuda")).square().mean()
        loss.backward()
        torch.cuda.synchronize()
        if step % 4 == 3:
            if healthy:
                norm_of(model)
            elif rank == 0:
                report(model, step, loss)
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
