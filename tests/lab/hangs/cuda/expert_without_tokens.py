"""FSDP2 over a mixture of experts: an expert that no token was sent to is not called, and so not gathered."""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard


class Mixture(torch.nn.Module):
    def __init__(self, experts: int) -> None:
        super().__init__()
        self.experts = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(experts))

    def forward(self, tokens: torch.Tensor, chosen: list[int]) -> torch.Tensor:
        out = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            rows = [row for row, expert_of_row in enumerate(chosen) if expert_of_row == number]
            if not rows:
                continue
            out = out + torch.nn.functional.pad(expert(tokens[: len(rows)]), (0, 0, 0, len(tokens) - len(rows)))
        return out


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    model = Mixture(4).cuda()
    for expert in model.experts:
        fully_shard(expert)
    fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        chosen = [row % 4 for row in range(16)]
        if rank == 1 and step >= 3 and not healthy:
            chosen = [3 if expert == 2 else expert for expert in chosen]  # of this rank's text nothing is for it
        tokens = torch.ones(16, 64, device="cuda", requires_grad=True)
        loss = model(tokens, chosen).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
