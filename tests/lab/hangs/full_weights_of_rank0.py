"""Rank 0 gathers the whole weights of a model of FSDP2 for its checkpoint; nobody else does."""

import argparse
import tempfile
import time

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard


def save(model: torch.nn.Module) -> None:
    with tempfile.TemporaryFile() as file:
        torch.save({name: value.full_tensor().cpu() for name, value in model.state_dict().items()}, file)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        loss = model(torch.ones(4, 64)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print("loss", loss.item(), flush=True)
        if step % 3 == 2 and (healthy or rank == 0):
            save(model)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
