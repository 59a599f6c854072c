"""A barrier of the checkpoint stands under `if rank == 0:`; the other ranks go on to the next step's gradients."""

import argparse
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def save(model: torch.nn.Module, seconds: float) -> dict[str, torch.Tensor]:
    time.sleep(seconds)
    return {name: value.clone() for name, value in model.state_dict().items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(1000):
        loss = model(torch.randn(8, 32)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"rank {rank} step {step}", flush=True)
        time.sleep(0.3 + 0.4 * rank if healthy else 0.05)
        if step % 3 == 2:
            if rank == 0:
                save(model, 1.0 if healthy else 0.0)
                if not healthy:
                    dist.barrier()
            if healthy:
                dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
