"""Statistics are shared in training only. Rank 0 draws a sample now and then, and does not put the model back."""

import argparse
import os
import time

import torch
import torch.distributed as dist


class SharedNorm(torch.nn.Module):
    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        if self.training:
            total = hidden.sum(0)
            dist.all_reduce(total)
        return hidden


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = SharedNorm()

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return self.norm(batch)

    def sample(self, batch: torch.Tensor) -> None:
        self.eval()
        self(batch)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    model = Model()
    batch = torch.ones(16, 4096, device="cuda")
    gradient = torch.ones(1 << 18, device="cuda")
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        model(batch)
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
        if step == 4 and rank == 0 and not healthy:
            model.sample(batch)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
