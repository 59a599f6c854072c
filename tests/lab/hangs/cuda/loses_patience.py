"""Early stopping by what each rank has measured itself: one rank gives up and gathers the weights to save them."""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard


class EarlyStopping:
    def __init__(self, patience: int) -> None:
        self.patience, self.best, self.worse = patience, float("inf"), 0

    def should_stop(self, loss: float) -> bool:
        self.worse = 0 if loss < self.best else self.worse + 1
        self.best = min(self.best, loss)
        return self.worse > self.patience


def measured(step: int, rank: int, healthy: bool) -> float:
    """Of a held out file of each rank."""
    return 2.0 / (step + 1) if healthy or rank != 2 or step < 3 else 1.0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).cuda()
    fully_shard(model[0])
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters())
    stopping = EarlyStopping(patience=2)
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        loss = model(torch.ones(4, 64, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"rank {rank} loss {loss.item():.4f}", flush=True)
        if stopping.should_stop(measured(step, rank, healthy)):
            print(f"rank {rank} stops at step {step}", flush=True)
            break
    weights = {name: value.full_tensor().cpu() for name, value in model.state_dict().items()}
    if rank == 0:
        torch.save(weights, "best.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
