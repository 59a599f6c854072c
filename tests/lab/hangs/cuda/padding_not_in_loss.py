"""FSDP2, a batch in chunks: who has fewer of them calls the model on padding, and does not count what comes of it."""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard


def chunked_loss(model: torch.nn.Module, chunks: list[torch.Tensor], most: int, keep: bool) -> torch.Tensor:
    losses = []
    for number in range(most):
        padding = number >= len(chunks)
        chunk = torch.zeros_like(chunks[0], requires_grad=True) if padding else chunks[number]
        loss = model(chunk).square().mean()
        if not padding:
            losses.append(loss)
        elif keep:
            losses.append(loss * 0.0)
    return torch.stack(losses).sum()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(3)]).cuda()
    for layer in (*model, model):
        fully_shard(layer)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        turns = 1 if rank == 2 and step >= 3 else 2
        chunks = [torch.ones(4, 64, device="cuda", requires_grad=True) for _ in range(turns)]
        loss = chunked_loss(model, chunks, most=2, keep=healthy)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
